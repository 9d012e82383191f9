#pragma once
// The text for which a job is planned.
#include <cstddef>

#include "mpi/decoding/speculation_options.hpp"
#include "src/sampling/sampler.hpp"

namespace yamata {

/// The text that the ranks will compute next, as far as layers, drafters and memory depend on it. Requests may differ from it.
struct ExpectedText {
  std::size_t prompt_tokens = 0;  ///< 0: the job generates no text
  int generate = 128;             ///< tokens after the prompt, at most
  SpeculationOptions speculation{};
  SamplingParams sampling{};
  int slots = 1;         ///< such texts at a time, at most; fewer if they do not fit into memory
  int kept_texts = 0;    ///< texts that may stay in the cache after their end
  int cache_tokens = 0;  ///< cells for all texts together, if these are more than the context; 0: a context for each slot, of usual size at
                         ///< most, if it fits
  int requests = 1;      ///< such texts at a time, as far as the choice of a layout depends on it
};

}  // namespace yamata
