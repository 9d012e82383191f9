#pragma once
// The guess sources of a job, by its flags and its layout.
#include <memory>
#include <string>
#include <vector>

#include "launch/job.hpp"
#include "mpi/decoding/guess_sources.hpp"
#include "src/tokenizer/tokenizer.hpp"

namespace yamata {

/// The text of every token, by id.
std::vector<std::string> vocabulary(const Tokenizer& tokenizer);

/// Maps each drafter's tokens to the target's. `pre_tokenizer`: see Tokenizer::load.
std::vector<VocabularyMap> map_vocabularies(const Job& job, const Tokenizer& tokenizer, const std::string& pre_tokenizer);

/// Keeps for later jobs what the drafts saved in this one.
void keep_savings(const Job& job, const GuessSources& sources);

/// For a job that has started: its drafters, with what they saved in earlier jobs, and, with `memory`, suffixes of this text and of the earlier texts in it.
GuessSources connect_sources(Job& job, std::vector<VocabularyMap> maps, std::shared_ptr<SuffixMemory> memory);

}  // namespace yamata
