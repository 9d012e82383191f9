#pragma once
// Valid messages of every kind, and functions that decode and validate them, for tests that damage them.
#include <functional>
#include <string>
#include <vector>

#include "mpi/protocol/wire.hpp"

namespace yamata::test {

struct MessageKind {
  std::string name;
  std::vector<wire::Bytes> samples;
  /// Decodes and validates; throws ClusterError if the message is invalid.
  std::function<void(const wire::Bytes&)> take;
};

/// The cache, model and job of the samples.
inline constexpr std::int32_t kSampleCells = 64, kSampleSequences = 8, kSampleVocabulary = 32, kSampleWidth = 8;
inline constexpr int kSampleRanks = 4;

/// Consecutive runs, as sent by the leader of a pipeline.
std::vector<wire::Record> sample_records();
/// A plan with the target on ranks 0 and 1, and a draft each on rank 2 and on rank 3.
wire::Start sample_plan();
wire::Hello sample_hello();
wire::Report sample_report();
/// Guesses after a text of four tokens, after its second commit.
wire::Guesses sample_guesses();

const std::vector<MessageKind>& message_kinds();

}  // namespace yamata::test
