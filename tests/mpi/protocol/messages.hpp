#pragma once
// Valid messages of every kind, and how each is taken: for those who damage them.
#include <functional>
#include <string>
#include <vector>

#include "mpi/protocol/wire.hpp"

namespace yamata::test {

struct MessageKind {
  std::string name;
  std::vector<wire::Bytes> samples;
  /// Decodes and validates; throws ClusterError where the message cannot be.
  std::function<void(const wire::Bytes&)> take;
};

/// The cache, model and job that the samples belong to.
inline constexpr std::int32_t kSampleCells = 64, kSampleSequences = 8, kSampleVocabulary = 32, kSampleWidth = 8;
inline constexpr int kSampleRanks = 4;

/// Runs that follow each other, as the leader of a pipeline sends them.
std::vector<wire::Record> sample_records();
/// A target on ranks 0 and 1, drafts on rank 2 and on ranks 3 alone.
wire::Start sample_plan();
wire::Hello sample_hello();
wire::Report sample_report();
/// Guesses below a text of four tokens, after its second commit.
wire::Guesses sample_guesses();

const std::vector<MessageKind>& message_kinds();

}  // namespace yamata::test
