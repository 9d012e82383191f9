#pragma once
// From flags to how a job decodes.
#include <optional>
#include <string>

#include "mpi/decoding/decoder.hpp"
#include "src/sampling/sampler.hpp"

namespace yamata {

/// How guesses are made and run, beyond the strategy.
struct SpeculationOptions {
  PolicyOptions policy;
  bool lookup = true;        ///< --no-lookup
  std::string suffix_store;  ///< --suffix-store; empty: none
  std::optional<TypicalAcceptance> typical;
  bool continuous = true, continue_tip = true, cancel = true, multibuffer = true;

  /// Whether guesses come from the text itself and earlier ones too, where there are any.
  bool looks_up() const { return policy.name != "chain" && lookup; }
};

/// How a job decodes; what differs from one request to the next is not in it.
DecodeOptions decode_options(Strategy strategy, const SpeculationOptions& speculation, int batch, int generate, int context,
                             const SamplingParams& sampling);

/// Where only texts guess, on a pipeline of so many stages: pipeinfer, of one speculative.
Strategy strategy_for_texts(int stages);

/// "iterative", "speculative", "pipeinfer".
const char* strategy_name(Strategy strategy);
std::optional<Strategy> find_strategy(const std::string& name);

}  // namespace yamata
