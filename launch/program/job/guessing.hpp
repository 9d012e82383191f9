#pragma once
// The guess sources of a job, by its flags and its layout.
#include <memory>
#include <string>
#include <vector>

#include "launch/program/job/job.hpp"
#include "launch/program/planning/kept_savings.hpp"
#include "mpi/decoding/guess_sources.hpp"
#include "src/tokenizer/tokenizer.hpp"

namespace yamata {

/// The text of every token, by id.
std::vector<std::string> vocabulary(const Tokenizer& tokenizer);

/// Maps each drafter's tokens to the target's. On rank 0. `pre_tokenizer`: see Tokenizer::load.
std::vector<VocabularyMap> map_vocabularies(const JobRank& rank, const Tokenizer& tokenizer, const std::string& pre_tokenizer);

/// Throws ModelError, as map_vocabularies does, if the draft's vocabulary is not the target's.
void require_common_vocabulary(const ModelFile& target, const ModelFile& draft);

/// For a job that has started: its drafters, and, suffixes of this text and of the earlier texts in it. With
/// `options.prompt_lookup`, prompt lookup instead; without `options.lookup`, neither.
GuessSources connect_sources(const Job& job, std::vector<VocabularyMap> maps, const DecodeOptions& options,
                             std::shared_ptr<SuffixMemory> memory);

/// What the drafts of a job save, kept from one job to the next.
class SavingsOfDrafts {
 public:
  /// Tells the drafts what they saved in earlier jobs.
  SavingsOfDrafts(const JobExperience& experience, const DecodeOptions& decode, const SamplingParams& sampling,
                  const GuessSources& sources);
  /// Keeps what the same drafts have saved since.
  void keep(const GuessSources& sources) const;

 private:
  std::vector<KeptSavings> of_drafters_;
};

}  // namespace yamata
