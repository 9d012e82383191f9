// Every message comes back as it went, and no damaged one gets through.
#include "mpi/wire.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "node/error.hpp"

namespace yamata::wire {
namespace {

Record run_record() {
  Record r;
  r.run = 77;
  r.tokens = {5, -1, 9};
  r.placements = {{10, -1, {0, 1}}, {11, 0, {1, 3}}, {11, 0, {3, 4}}};
  r.wanted = {0, 2};
  return r;
}

TEST(Wire, Hello_roundTrips) {
  const Hello m{kProtocolVersion, "1.2", "jetson-3", "neon", 0x123456789abcdef0u, 1u << 30, 6};
  const Hello back = decode_hello(encode(m));
  EXPECT_EQ(back.version, m.version);
  EXPECT_EQ(back.host, m.host);
  EXPECT_EQ(back.isa, m.isa);
  EXPECT_EQ(back.fingerprint, m.fingerprint);
  EXPECT_EQ(back.available_bytes, m.available_bytes);
  EXPECT_EQ(back.threads, m.threads);
}

TEST(Wire, HelloOfAnotherProtocol_saysSoAndIsReadNoFurther) {
  Bytes bytes = encode(Hello{kProtocolVersion + 1, "9", "h", "i", 1, 2, 3});
  bytes.resize(6);
  EXPECT_EQ(decode_hello(bytes).protocol, kProtocolVersion + 1);
}

TEST(Wire, Start_roundTrips) {
  const Start back = decode_start(encode(Start{{{0, 3}, {3, 8}}, 4096, 5, CacheType::kF32}));
  ASSERT_EQ(back.layers.size(), 2u);
  EXPECT_EQ(back.layers[1].begin, 3);
  EXPECT_EQ(back.layers[1].end, 8);
  EXPECT_EQ(back.cells, 4096);
  EXPECT_EQ(back.sequences, 5);
  EXPECT_EQ(back.cache_type, CacheType::kF32);
}

TEST(Wire, Run_roundTripsAsATree) {
  const Record back = decode_record(encode(run_record()));
  EXPECT_EQ(back.kind, RecordKind::kRun);
  EXPECT_EQ(back.run, 77u);
  EXPECT_EQ(back.tokens, run_record().tokens);
  EXPECT_EQ(back.wanted, run_record().wanted);
  ASSERT_EQ(back.placements.size(), 3u);
  EXPECT_EQ(back.placements[2].position, 11);
  EXPECT_EQ(back.placements[2].parent, 0);
  EXPECT_EQ(back.placements[1].sequences.end, 3);
}

TEST(Wire, CacheOperation_roundTrips) {
  Record m;
  m.kind = RecordKind::kCopy;
  m.from = 2;
  m.sequences = {3, 7};
  m.positions = {5, kUnbounded};
  const Record back = decode_record(encode(m));
  EXPECT_EQ(back.kind, RecordKind::kCopy);
  EXPECT_EQ(back.from, 2);
  EXPECT_EQ(back.sequences.begin, 3);
  EXPECT_EQ(back.sequences.end, 7);
  EXPECT_EQ(back.positions.begin, 5);
  EXPECT_EQ(back.positions.end, kUnbounded);
}

TEST(Wire, Rows_roundTripInPlace) {
  const std::vector<float> values{1.5f, -0.0f, 3e38f};
  const Bytes bytes = encode(Rows{9, values});
  const Rows back = decode_rows(bytes);
  EXPECT_EQ(back.run, 9u);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), back.values.begin(), back.values.end()));
}

TEST(Wire, HeartbeatFailureReportStop_roundTrip) {
  const Heartbeat beat = decode_heartbeat(encode(Heartbeat{12, Activity::kAwaitingActivations, 750}));
  EXPECT_EQ(beat.progress, 12u);
  EXPECT_EQ(beat.activity, Activity::kAwaitingActivations);
  EXPECT_EQ(beat.loaded_permille, 750);
  const Failure failure = decode_failure(encode(Failure{2, "no such file"}));
  EXPECT_EQ(failure.code, 2);
  EXPECT_EQ(failure.text, "no such file");
  const Report report = decode_report(encode(Report{"h", "stage", "avx2", "cpu", {2, 5}, 1.5, 2.5, 3, 4, 5}));
  EXPECT_EQ(report.host, "h");
  EXPECT_EQ(report.layers.end, 5);
  EXPECT_EQ(report.busy_s, 1.5);
  EXPECT_EQ(report.rss_bytes, 4u);
  EXPECT_EQ(report.mapped_bytes, 5u);
  EXPECT_EQ(decode_stop(encode_stop(130)), 130);
}

TEST(Wire, MessageCutAnywhereOrTooLong_isRefused) {
  struct Kind {
    Bytes whole;
    std::function<void(const Bytes&)> decode;
  };
  const std::vector<float> values{1, 2};
  const std::vector<Kind> kinds{
      {encode(Hello{kProtocolVersion, "v", "h", "i", 1, 2, 3}), [](const Bytes& b) { decode_hello(b); }},
      {encode(Start{{{0, 3}}, 1, 1, CacheType::kF16}), [](const Bytes& b) { decode_start(b); }},
      {encode(run_record()), [](const Bytes& b) { decode_record(b); }},
      {encode(Rows{1, values}), [](const Bytes& b) { decode_rows(b); }},
      {encode(Heartbeat{}), [](const Bytes& b) { decode_heartbeat(b); }},
      {encode(Failure{1, "text"}), [](const Bytes& b) { decode_failure(b); }},
      {encode(Report{}), [](const Bytes& b) { decode_report(b); }},
      {encode_stop(1), [](const Bytes& b) { decode_stop(b); }},
  };
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    EXPECT_NO_THROW(kinds[k].decode(kinds[k].whole)) << k;
    for (std::size_t n = 0; n < kinds[k].whole.size(); ++n) {
      EXPECT_THROW(kinds[k].decode({kinds[k].whole.begin(), kinds[k].whole.begin() + static_cast<std::ptrdiff_t>(n)}), ClusterError) << k << " cut at " << n;
    }
    Bytes longer = kinds[k].whole;
    longer.push_back(std::byte{});
    EXPECT_THROW(kinds[k].decode(longer), ClusterError) << k;
  }
}

}  // namespace
}  // namespace yamata::wire
