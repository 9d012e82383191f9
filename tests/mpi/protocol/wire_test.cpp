// Every message is decoded to what was encoded, and damaged messages are refused.
#include "mpi/protocol/wire.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "node/error.hpp"

namespace yamata::wire {
namespace {

Record run_record() {
  Record r;
  r.operations = {CacheOperation::copy(2, {3, 7}, {5, kUnbounded}), CacheOperation::clear()};
  r.run = 77;
  r.tokens = {5, -1, 9};
  r.placements = {{10, -1, {0, 1}}, {11, 0, {1, 3}}, {11, 0, {3, 4}}};
  r.logit_rows = {0, 2};
  return r;
}

Start two_pipelines() {
  Start start;
  start.cache_types = {CacheType::kF32, CacheType::kQ8_0};
  start.batch = 32;
  start.job = 1ll << 40;
  start.draft.width = 7, start.draft.children = 3, start.draft.credit = 24, start.draft.threshold = 0.125f, start.draft.depth = 5;
  start.draft.branches = 2, start.draft.accept = 0.25f, start.draft.split = 0.75f;
  start.draft.sequences = 3, start.draft.fixed_sequences = true;
  start.draft.shape.nodes = {{}, {0, 0, 1}, {1, 1, 0}};
  start.pipelines = {{0, {0, 1}, {{0, 3}, {3, 8}}, 4096, 8}, {1, {2, 4}, {{0, 1}, {1, 2}}, 100, 9, {1, 0}}};
  start.pipelines[0].window_cells = 300;
  start.pipelines[0].checkpoints = 4;
  start.pipelines[0].slots = 2, start.pipelines[0].slot_sequences = 2;
  start.pipelines[0].first_layers = {2, 0};
  return start;
}

TEST(Wire, Hello_roundTrips) {
  const Hello m{kProtocolVersion,
                "1.2",
                "jetson-3",
                "neon",
                {0x123456789abcdef0u, 0},
                1u << 30,
                6,
                2,
                77,
                "Cortex-A78AE",
                "/slow",
                12,
                1'800'000'000,
                "cpu+cuda:0",
                7,
                2,
                1,
                1u << 29,
                1,
                1,
                "no driver"};
  const Hello back = decode_hello(encode(m));
  EXPECT_EQ(back.version, m.version);
  EXPECT_EQ(back.host, m.host);
  EXPECT_EQ(back.isa, m.isa);
  EXPECT_EQ(back.fingerprints, m.fingerprints);
  EXPECT_EQ(back.available_bytes, m.available_bytes);
  EXPECT_EQ(back.threads, m.threads);
  EXPECT_EQ(back.model, m.model);
  EXPECT_EQ(back.machine, 77u);
  EXPECT_EQ(back.cpu, m.cpu);
  EXPECT_EQ(back.cpu_group, m.cpu_group);
  EXPECT_EQ(back.logical_cpus, m.logical_cpus);
  EXPECT_EQ(back.device, m.device);
  EXPECT_EQ(back.device_layers, 7);
  EXPECT_EQ(back.device_copies, 2);
  EXPECT_EQ(back.device_is_unified, 1);
  EXPECT_EQ(back.device_bytes, m.device_bytes);
  EXPECT_EQ(back.device_drafts, 1);
  EXPECT_EQ(back.fetches_to_memory, 1);
  EXPECT_EQ(back.no_device, m.no_device);
}

TEST(Wire, Measured_roundTrips) {
  const Measured back = decode_measured(encode(Measured{0.25, {1.5, 2}}));
  EXPECT_EQ(back.ns_per_byte, 0.25);
  EXPECT_EQ(back.width_multiples, (std::vector<double>{1.5, 2}));
}

TEST(Wire, HelloOfAnotherProtocol_saysSoAndIsReadNoFurther) {
  Bytes bytes = encode(Hello{kProtocolVersion + 1, "9", "h", "i", {1}, 2, 3, 0});
  bytes.resize(6);
  EXPECT_EQ(decode_hello(bytes).protocol, kProtocolVersion + 1);
}

TEST(Wire, Start_roundTrips) {
  const Start back = decode_start(encode(two_pipelines()));
  EXPECT_EQ(back.cache_types, two_pipelines().cache_types);
  EXPECT_EQ(back.batch, 32);
  EXPECT_EQ(back.job, 1ll << 40);
  EXPECT_EQ(back.draft.width, 7);
  EXPECT_EQ(back.draft.children, 3);
  EXPECT_EQ(back.draft.credit, 24);
  EXPECT_EQ(back.draft.threshold, 0.125f);
  EXPECT_EQ(back.draft.branches, 2);
  EXPECT_EQ(back.draft.accept, 0.25f);
  EXPECT_EQ(back.draft.split, 0.75f);
  EXPECT_EQ(back.draft.depth, 5);
  EXPECT_EQ(back.draft.sequences, 3);
  EXPECT_TRUE(back.draft.fixed_sequences);
  EXPECT_EQ(back.draft.shape, two_pipelines().draft.shape);
  ASSERT_EQ(back.pipelines.size(), 2u);
  ASSERT_EQ(back.pipelines[0].layers.size(), 2u);
  EXPECT_EQ(back.pipelines[0].layers[1].begin, 3);
  EXPECT_EQ(back.pipelines[0].layers[1].end, 8);
  EXPECT_EQ(back.pipelines[0].cells, 4096);
  EXPECT_EQ(back.pipelines[0].window_cells, 300);
  EXPECT_EQ(back.pipelines[0].checkpoints, 4);
  EXPECT_EQ(back.pipelines[0].slots, 2);
  EXPECT_EQ(back.pipelines[0].slot_sequences, 2);
  EXPECT_EQ(back.pipelines[1].window_cells, 0);
  EXPECT_EQ(back.pipelines[0].first_layers, (std::vector<std::int32_t>{2, 0}));
  EXPECT_TRUE(back.pipelines[1].first_layers.empty());
  EXPECT_EQ(back.pipelines[1].model, 1);
  EXPECT_EQ(back.pipelines[1].ranks, (std::vector<std::int32_t>{2, 4}));
  EXPECT_EQ(back.pipelines[1].place_of(4), 1u);
  EXPECT_FALSE(back.pipelines[1].place_of(3));
  EXPECT_EQ(back.pipelines[1].sequences, 9);
  EXPECT_EQ(back.pipelines[1].packed, (std::vector<std::uint8_t>{1, 0}));
}

TEST(Wire, RanksWithTheSameLayers_areAGroup) {
  Start start = two_pipelines();
  PipelinePlan& target = start.pipelines[0];
  target.ranks = {0, 1, 3, 5, 6};
  target.layers = {{0, 3}, {0, 3}, {3, 8}, {8, 9}, {8, 9}};
  target.shares = {0.5, 0.25, 1, 0.75, 0.25};
  target.packed.clear();
  const PipelinePlan back = decode_start(encode(start)).pipelines[0];
  EXPECT_EQ(back.shares, target.shares);
  EXPECT_EQ(back.stages(), (std::vector<std::vector<int>>{{0, 1}, {3}, {5, 6}}));
  EXPECT_EQ(back.member(4).shares, (std::vector<double>{0.75, 0.25}));
  EXPECT_EQ(back.member(4).member, 1);
  EXPECT_EQ(back.member(2).shares.size(), 1u);
}

TEST(Wire, Run_roundTripsAsATree) {
  const Record back = decode_record(encode(run_record()));
  EXPECT_TRUE(back.has_run());
  EXPECT_EQ(back.run, 77u);
  EXPECT_EQ(back.operations, run_record().operations);
  EXPECT_EQ(back.tokens, run_record().tokens);
  EXPECT_EQ(back.logit_rows, run_record().logit_rows);
  ASSERT_EQ(back.placements.size(), 3u);
  EXPECT_EQ(back.placements[2].position, 11);
  EXPECT_EQ(back.placements[2].parent, 0);
  EXPECT_EQ(back.placements[1].sequences.end, 3);
}

TEST(Wire, FeatureRows_roundTrip_andTakeNoByteWhereNobodyAsks) {
  Record record = run_record();
  record.best = 7;
  const std::size_t without = encode(record).size();
  record.feature_rows = {1, 2};
  record.feature_layers = {2, kOutputFeatures};
  EXPECT_EQ(encode(record).size(), without + 2 * (8 + 2 * sizeof(std::int32_t)));
  const Record back = decode_record(encode(record));
  EXPECT_EQ(back.feature_rows, record.feature_rows);
  EXPECT_EQ(back.feature_layers, record.feature_layers);
  EXPECT_EQ(back.best, 7);
  const std::vector<float> values{1, 2}, features{3.5f, -4, 5};
  const std::vector<std::int32_t> tokens{31, 30};
  const std::size_t logits_alone = encode(Rows{.run = 9, .values = values, .tokens = tokens, .vocabulary = 32}).size();
  const Bytes bytes = encode(Rows{.run = 9, .values = values, .tokens = tokens, .vocabulary = 32, .features = features});
  EXPECT_EQ(bytes.size(), logits_alone + 8 + 3 * sizeof(float));
  const Rows rows = decode_rows(bytes);
  EXPECT_FALSE(rows.skipped);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), rows.values.begin(), rows.values.end()));
  EXPECT_TRUE(std::equal(features.begin(), features.end(), rows.features.begin(), rows.features.end()));
}

TEST(Wire, CommitGuessesCancel_roundTrip) {
  const Commit commit = decode_commit(encode(Commit{3, 9, 100, {5, 6}, 4, 0.5f, true}));
  EXPECT_EQ(commit.request, 3u);
  EXPECT_EQ(commit.epoch, 9u);
  EXPECT_EQ(commit.position, 100);
  EXPECT_EQ(commit.tokens, (std::vector<std::int32_t>{5, 6}));
  EXPECT_EQ(commit.min_drafts, 4);
  EXPECT_EQ(commit.min_path_probability, 0.5f);
  EXPECT_TRUE(commit.resend);
  EXPECT_FALSE(commit.ended);
  EXPECT_TRUE(decode_commit(encode(Commit{.request = 3, .ended = true})).ended);
  const Guesses guesses = decode_guesses(encode(Guesses{4, 9, 3, 101, true, 0.125, 1, {{4, 3, 77, 0.25f}}}));
  EXPECT_EQ(guesses.request, 4u);
  EXPECT_EQ(guesses.epoch, 9u);
  EXPECT_EQ(guesses.root, 3u);
  EXPECT_EQ(guesses.root_position, 101);
  EXPECT_TRUE(guesses.complete);
  EXPECT_EQ(guesses.evaluation_s, 0.125);
  ASSERT_EQ(guesses.guesses.size(), 1u);
  EXPECT_EQ(guesses.guesses[0].token, 77);
  EXPECT_EQ(guesses.guesses[0].probability, 0.25f);
  const std::vector<std::uint64_t> runs{1, 1ull << 40};
  const Cancel cancel = decode_cancel(encode(Cancel{runs, CancelRoute::kBackward, 11}));
  EXPECT_EQ(cancel.runs, runs);
  EXPECT_EQ(cancel.route, CancelRoute::kBackward);
  EXPECT_EQ(cancel.job, 11);
}

TEST(Wire, Rows_roundTripInPlace) {
  const std::vector<float> values{1.5f, -0.0f, 3e38f};
  const Bytes bytes = encode(Rows{9, false, values});
  EXPECT_TRUE(decode_rows(encode(Rows{9, true, {}})).skipped);
  const Rows back = decode_rows(bytes);
  EXPECT_EQ(back.run, 9u);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), back.values.begin(), back.values.end()));
}

TEST(Wire, RowsOfTheBestLogits_sayWhoseTheyAre_andNoOthers) {
  const std::vector<float> values{3, 2};
  const std::vector<std::int32_t> tokens{31, -1}, none{32, 1}, fewer{31};
  const Bytes bytes = encode(Rows{9, false, values, tokens, 32});
  const Rows back = decode_rows(bytes);
  EXPECT_EQ(back.vocabulary, 32u);
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), back.tokens.begin(), back.tokens.end()));
  EXPECT_THROW(decode_rows(encode(Rows{9, false, values, none, 32})), ClusterError);
  EXPECT_THROW(decode_rows(encode(Rows{9, false, values, fewer, 32})), ClusterError);
}

TEST(Wire, LikelyRow_roundTrips_andTakesNoByteWhereThereIsNone) {
  Record record = run_record();
  record.likely_row = -1;
  const std::size_t without = encode(record).size();
  EXPECT_EQ(decode_record(encode(record)).likely_row, -1);
  record.likely_row = 0;
  EXPECT_EQ(encode(record).size(), without + sizeof(std::int32_t));
  EXPECT_EQ(decode_record(encode(record)).likely_row, 0);
  EXPECT_EQ(decode_record(encode(record)).best, record.best);
}

TEST(Wire, SumsOfLogits_roundTrip_andTakeNoByteWhereNobodyAsks) {
  Record record = run_record();
  record.best = 7;
  const std::size_t without = encode(record).size();
  EXPECT_FALSE(decode_record(encode(record)).sums);
  record.sums = true;
  EXPECT_EQ(encode(record).size(), without);
  EXPECT_TRUE(decode_record(encode(record)).sums);
  EXPECT_EQ(decode_record(encode(record)).best, 7);
  const std::vector<float> values{3, 2}, sums{4, 5};
  const std::vector<std::int32_t> tokens{31, 30};
  const std::size_t logits_alone = encode(Rows{.run = 9, .values = values, .tokens = tokens, .vocabulary = 32}).size();
  const Bytes bytes = encode(Rows{.run = 9, .values = values, .tokens = tokens, .vocabulary = 32, .sums = sums, .features = values});
  EXPECT_EQ(bytes.size(), logits_alone + 2 * (8 + 2 * sizeof(float)));
  const Rows rows = decode_rows(bytes);
  EXPECT_TRUE(std::ranges::equal(rows.sums, sums));
  EXPECT_TRUE(std::ranges::equal(rows.features, values));
}

TEST(Wire, HeartbeatFailureReportStop_roundTrip) {
  const Heartbeat beat = decode_heartbeat(encode(Heartbeat{12, Activity::kAwaitingActivations, 750, 3, true, {0, 2}, {4}, true, true}));
  EXPECT_EQ(beat.receives, std::vector<std::int32_t>{4});
  EXPECT_EQ(beat.hears, (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(beat.awaits, 3);
  EXPECT_TRUE(beat.asks);
  EXPECT_TRUE(beat.can_lose_drafters);
  EXPECT_TRUE(beat.serving);
  EXPECT_EQ(beat.progress, 12u);
  EXPECT_EQ(beat.activity, Activity::kAwaitingActivations);
  EXPECT_EQ(beat.loaded_permille, 750);
  const Failure failure = decode_failure(encode(Failure{2, "no such file", true}));
  EXPECT_TRUE(failure.ends_job);
  EXPECT_EQ(failure.code, 2);
  EXPECT_EQ(failure.text, "no such file");
  const Report report = decode_report(encode(
      Report{"h", "stage", "avx2", "cpu", {2, 5}, 12, 1.5, 2.5, 0.5, 3, 4, 5, 6, 7, 8, {{TraceEvent::Kind::kSkip, true, 3, 9, 10, 11}}}));
  EXPECT_EQ(report.host, "h");
  EXPECT_EQ(report.layers.end, 5);
  EXPECT_EQ(report.threads, 12);
  EXPECT_EQ(report.busy_s, 1.5);
  EXPECT_EQ(report.wait_cpu_s, 0.5);
  EXPECT_EQ(report.rss_bytes, 4u);
  EXPECT_EQ(report.mapped_bytes, 5u);
  EXPECT_EQ(report.tokens_skipped, 8u);
  ASSERT_EQ(report.events.size(), 1u);
  EXPECT_EQ(report.events[0].end_us, 11);
  Report timed;
  timed.run_s = {0.5, 0};
  timed.draft_run_s = {0.25};
  timed.draft_s = 0.75, timed.candidates_s = 0.1875, timed.device_peak_bytes = 1ull << 33;
  timed.share = 0.375;
  timed.exchange_s = 0.0625, timed.copy_wait_s = 0.03125, timed.copied_bytes = 1ull << 35;
  EXPECT_EQ(decode_report(encode(timed)).draft_s, 0.75);
  EXPECT_EQ(decode_report(encode(timed)).candidates_s, 0.1875);
  EXPECT_EQ(decode_report(encode(timed)).share, 0.375);
  EXPECT_EQ(decode_report(encode(timed)).exchange_s, 0.0625);
  EXPECT_EQ(decode_report(encode(timed)).copy_wait_s, 0.03125);
  EXPECT_EQ(decode_report(encode(timed)).copied_bytes, 1ull << 35);
  EXPECT_EQ(decode_report(encode(timed)).run_s, timed.run_s);
  EXPECT_EQ(decode_report(encode(timed)).draft_run_s, timed.draft_run_s);
  EXPECT_EQ(decode_stop(encode_stop(130)), 130);
}

TEST(Wire, MessageCutAnywhereOrTooLong_isRefused) {
  struct Kind {
    Bytes whole;
    std::function<void(const Bytes&)> decode;
  };
  const std::vector<float> values{1, 2};
  Record featured = run_record();
  featured.feature_rows = {0};
  const std::vector<Kind> kinds{
      {encode(Hello{kProtocolVersion, "v", "h", "i", {1}, 2, 3, 0}), [](const Bytes& b) { decode_hello(b); }},
      {encode(two_pipelines()), [](const Bytes& b) { decode_start(b); }},
      {encode(run_record()), [](const Bytes& b) { decode_record(b); }},
      {encode(Rows{1, false, values}), [](const Bytes& b) { decode_rows(b); }},
      {encode(Rows{.run = 1, .values = values, .features = values}), [](const Bytes& b) { decode_rows(b); }},
      {encode(featured), [](const Bytes& b) { decode_record(b); }},
      {encode(Commit{1, 1, 2, {3, 4}, 5, 0, false}), [](const Bytes& b) { decode_commit(b); }},
      {encode(Guesses{1, 1, 2, 3, true, 0, 1, {{4, 5, 6, 0.5f}}}), [](const Bytes& b) { decode_guesses(b); }},
      {encode(Cancel{{7, 8}}), [](const Bytes& b) { decode_cancel(b); }},
      {encode(Heartbeat{}), [](const Bytes& b) { decode_heartbeat(b); }},
      {encode(Failure{1, "text"}), [](const Bytes& b) { decode_failure(b); }},
      {encode(Report{}), [](const Bytes& b) { decode_report(b); }},
      {encode_stop(1), [](const Bytes& b) { decode_stop(b); }},
  };
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    EXPECT_NO_THROW(kinds[k].decode(kinds[k].whole)) << k;
    for (std::size_t n = 0; n < kinds[k].whole.size(); ++n) {
      EXPECT_THROW(kinds[k].decode({kinds[k].whole.begin(), kinds[k].whole.begin() + static_cast<std::ptrdiff_t>(n)}), ClusterError)
          << k << " cut at " << n;
    }
    Bytes longer = kinds[k].whole;
    longer.push_back(std::byte{});
    EXPECT_THROW(kinds[k].decode(longer), ClusterError) << k;
  }
}

}  // namespace
}  // namespace yamata::wire
