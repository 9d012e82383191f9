#include "tests/mpi/protocol/messages.hpp"

#include "mpi/protocol/validate.hpp"

namespace yamata::test {
namespace {

using wire::Bytes;
using wire::encode;

const std::vector<float> kFloats(3 * kSampleWidth, 0.5f);

std::vector<Bytes> encoded_records() {
  std::vector<Bytes> all;
  for (const wire::Record& record : sample_records()) all.push_back(encode(record));
  return all;
}

void take_record(const Bytes& bytes) {
  validate(wire::decode_record(bytes), {.cells = kSampleCells, .sequences = kSampleSequences, .last_run = 0}, 1);
}

void take_activations(const Bytes& bytes) {
  validate_activations(wire::decode_rows(bytes), sample_records()[1], {kSampleWidth, kSampleWidth}, 1, 1);
}

void take_logits(const Bytes& bytes) {
  wire::ResultLimits limits{.run = 2, .logit_rows = 1, .feature_rows = 1, .feature_layers = 1, .may_skip = true, .width = kSampleWidth};
  limits.vocabulary = kSampleVocabulary;
  const wire::Rows rows = wire::decode_rows(bytes);
  if (!rows.tokens.empty()) limits.best = 2;
  limits.sums = !rows.sums.empty();
  validate(rows, limits, 1);
}

std::vector<Bytes> encoded_logits() {
  static const std::vector<float> all(kSampleVocabulary, 1.0f), best{3, 2}, sum{3.5f};
  static const std::vector<std::int32_t> tokens{31, -1};
  const auto features = std::span(kFloats).first(kSampleWidth);
  return {
      encode(wire::Rows{.run = 2, .values = all, .features = features}),
      encode(wire::Rows{.run = 2, .values = best, .tokens = tokens, .vocabulary = kSampleVocabulary, .features = features}),
      encode(wire::Rows{.run = 2, .values = best, .tokens = tokens, .vocabulary = kSampleVocabulary, .sums = sum, .features = features}),
      encode(wire::Rows{.run = 2, .skipped = true, .values = {}})};
}

wire::ModelFiles sample_files() {
  return {1, {.fingerprint = 42, .name = "model.gguf", .parts = {{"part-1.gguf", 1u << 21, Bytes(50)}, {"part-2.gguf", 77, Bytes(77)}}}};
}

std::vector<MessageKind> make_kinds() {
  const auto cancel = [](const Bytes& b) { wire::validate_cancel(wire::decode_cancel(b).runs, 0); };
  const auto commit = [](const Bytes& b) {
    validate(wire::decode_commit(b), {.position = 2, .cells = kSampleCells, .vocabulary = kSampleVocabulary}, 0);
  };
  const auto draft_heads_commit = [](const Bytes& b) {
    validate(wire::decode_commit(b), {.position = 0, .cells = kSampleCells, .vocabulary = kSampleVocabulary, .features = kSampleWidth}, 0);
  };
  const auto guesses = [](const Bytes& b) {
    validate(wire::decode_guesses(b), {.epoch = 2, .text_tokens = 4, .vocabulary = kSampleVocabulary}, 1);
  };
  return {
      {"record", encoded_records(), take_record},
      {"activations",
       {encode(wire::Rows{.run = 2, .values = kFloats, .features = std::span(kFloats).first(2 * kSampleWidth)}),
        encode(wire::Rows{.run = 2, .skipped = true, .values = {}})},
       take_activations},
      {"logits", encoded_logits(), take_logits},
      {"cancel", {wire::encode(wire::Cancel{{7, 8, 9}, CancelRoute::kBackward})}, cancel},
      {"commit", {encode(wire::Commit{3, 9, 2, {5, 6}, 4, 0.5f, true})}, commit},
      {"commit to heads",
       {encode(wire::Commit{
           .request = 3, .epoch = 2, .tokens = {5, 6, 7}, .model = 2, .features = {kFloats.begin(), kFloats.begin() + 2 * kSampleWidth}})},
       draft_heads_commit},
      {"guesses", {encode(sample_guesses())}, guesses},
      {"hello", {encode(sample_hello())}, [](const Bytes& b) { validate(wire::decode_hello(b), 1); }},
      {"question for files", {encode(wire::AskFiles{2})}, [](const Bytes& b) { wire::decode_ask_files(b); }},
      {"files", {encode(sample_files())}, [](const Bytes& b) { wire::decode_model_files(b); }},
      {"question for weights", {encode(wire::AskChunk{1, 9})}, [](const Bytes& b) { wire::decode_ask_chunk(b); }},
      {"weights", {encode(wire::Chunk{1, 9, 77, std::as_bytes(std::span(kFloats))})}, [](const Bytes& b) { wire::decode_chunk(b); }},
      {"speed", {encode(wire::Measured{0.25, {1.5, 2}})}, [](const Bytes& b) { validate(wire::decode_measured(b), 1); }},
      {"probe", {encode(wire::Probe{3, Bytes(5)})}, [](const Bytes& b) { wire::decode_probe(b); }},
      {"layer to share",
       {encode(wire::BenchmarkRequest{{0, 1, 3}, {0.5, 0.25, 0.25}, 4, 2, 9})},
       [](const Bytes& b) { validate(wire::decode_benchmark_request(b), kSampleRanks, 1, 0); }},
      {"what a shared layer took",
       {encode(wire::BenchmarkResult{0.25, 0.0625})},
       [](const Bytes& b) { validate(wire::decode_benchmark_result(b), 1); }},
      {"plan", {encode(sample_plan())}, [](const Bytes& b) { validate(wire::decode_start(b), kSampleRanks, 0); }},
      {"heartbeat",
       {encode(wire::Heartbeat{12, wire::Activity::kAwaitingActivations, 750, 1, false, {0, 2}})},
       [](const Bytes& b) { validate(wire::decode_heartbeat(b), 1); }},
      {"the head's heartbeat",
       {encode(wire::Heartbeat{.progress = 3, .loaded_permille = 1000, .asks = true, .can_lose_drafters = true, .serving = true})},
       [](const Bytes& b) { validate(wire::decode_heartbeat(b), 0); }},
      {"failure", {encode(wire::Failure{2, "no such file"})}, [](const Bytes& b) { wire::decode_failure(b); }},
      {"report", {encode(sample_report())}, [](const Bytes& b) { validate(wire::decode_report(b), 1); }},
      {"stop", {wire::encode_stop(130)}, [](const Bytes& b) { wire::validate_stop(wire::decode_stop(b), 0); }},
  };
}

}  // namespace

std::vector<wire::Record> sample_records() {
  wire::Record prompt;
  prompt.run = 1;
  prompt.tokens = {5, 1, 9};
  prompt.placements = {{0, -1, {0, 1}}, {1, -1, {0, 1}}, {2, -1, {0, 1}}};
  prompt.logit_rows = {2};
  wire::Record tree;
  tree.operations = {CacheOperation::copy(0, {3, 7}, {0, 3}), CacheOperation::remove({7, 8}, {2, kUnbounded})};
  tree.run = 2;
  tree.tokens = {5, 3, 9};
  tree.placements = {{3, -1, {0, 4}}, {4, 0, {1, 3}}, {4, 0, {3, 4}}};
  tree.logit_rows = {0, 2};
  tree.best = 7;
  tree.feature_rows = {1, 2};
  tree.feature_layers = {0, kOutputFeatures};
  wire::Record operations;
  operations.operations = {CacheOperation::keep({0, 2}, {0, 4}), CacheOperation::copy(0, {2, 3}, {1, 4})};
  wire::Record last;
  last.operations = {CacheOperation::clear()};
  last.run = 3;
  last.tokens = {8, 2};
  last.placements = {{0, -1, {0, 8}}, {1, 0, {0, 8}}};
  last.logit_rows = {0, 1};
  return {prompt, tree, operations, last};
}

wire::Start sample_plan() {
  wire::Start start;
  start.cache_types = {CacheType::kF32, CacheType::kQ8_0};
  start.batch = 32;
  start.head_host = "host0";
  start.head_time_us = 1'000'000;
  start.job = 7;
  start.draft.shape.nodes = {{}, {0, 0, 1}, {1, 1, 0}};
  start.pipelines = {{0, {0, 1}, {{0, 3}, {3, 8}}, kSampleCells, kSampleSequences},
                     {1, {2, 3}, {{0, 1}, {1, 2}}, 100, 9, {1, 0}},
                     {2, {0}, {{0, 2}}, 100, 9, {1}}};
  return start;
}

wire::Hello sample_hello() {
  return {wire::kProtocolVersion, "test",       "host1", "neon", {42}, 1ull << 33, 6, 0, 77, "Cortex-A78AE", "/slow", 12,
          1'800'000'000,          "cpu+cuda:0", 3,       1,      0,    1ull << 32, 1};
}

wire::Report sample_report() {
  wire::Report report{
      "host1", "stage", "avx2", "cpu",
      {2, 5},  12,      1.5,    2.5,
      0.5,     3,       4,      5,
      6,       7,       8,      {{TraceEvent::Kind::kSkip, true, 3, 9, 10, 11}, {TraceEvent::Kind::kCommit, false, 1, 0, 12, 12}}};
  report.run_s = {0.5, 0, 0.75};
  report.draft_run_s = {0.25};
  report.share = 0.375;
  report.exchange_s = 0.0625, report.copy_wait_s = 0.03125, report.copied_bytes = 1u << 20;
  return report;
}

wire::Guesses sample_guesses() {
  return {5, 2, 3, 3, false, 0.125, 1, {{4, 3, 7, 0.5f}, {5, 4, 8, 0.25f}, {6, 3, 9, 0.125f}, {7, 5, 1, 1.0f}}};
}

const std::vector<MessageKind>& message_kinds() {
  static const std::vector<MessageKind> kinds = make_kinds();
  return kinds;
}

}  // namespace yamata::test
