#pragma once
// Who guesses in a job, as its flags and layout say.
#include <memory>
#include <string>
#include <vector>

#include "launch/job.hpp"
#include "mpi/decoding/guess_sources.hpp"
#include "src/tokenizer/tokenizer.hpp"

namespace yamata {

/// The text of every token, in the order of their ids.
std::vector<std::string> vocabulary(const Tokenizer& tokenizer);

/// From each drafter's tokens to the target's. `pre_tokenizer`: see Tokenizer::load.
std::vector<VocabularyMap> map_vocabularies(const Job& job, const Tokenizer& tokenizer, const std::string& pre_tokenizer);

/// Once the job is led: its drafters, and with `memory` what this text and the earlier ones in it say.
GuessSources connect_sources(Job& job, std::vector<VocabularyMap> maps, std::shared_ptr<SuffixMemory> memory);

}  // namespace yamata
