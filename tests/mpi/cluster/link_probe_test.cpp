// Link measurements with simulated links.
#include "mpi/cluster/link_probe.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "node/error.hpp"
#include "tests/mpi/silent_transport.hpp"

namespace yamata {
namespace {

struct Wire {
  double latency_s = 1e-4, bytes_per_s = 125e6, wake_up_s = 3e-4;
};

/// The head's transport in virtual time: messages are sent one after another, and answered by ranks that sleep at first.
class TimedTransport final : public test::SilentTransport {
 public:
  TimedTransport(std::int64_t& now_ns, std::vector<Wire> wires)
      : SilentTransport(static_cast<int>(wires.size())), now_ns_(now_ns), wires_(std::move(wires)), asleep_(wires_.size(), true) {}

  void send(int to, Tag tag, std::vector<std::byte> bytes) override {
    ASSERT_EQ(tag, Tag::kProbe);
    const auto rank = static_cast<std::size_t>(to);
    const Wire& wire = wires_[rank];
    free_ns_ = std::max(free_ns_, now_ns_) + std::llround(1e9 * static_cast<double>(bytes.size()) / wire.bytes_per_s);
    std::int64_t there_ns = free_ns_ + std::llround(1e9 * wire.latency_s);
    if (asleep_[rank]) awake_ns_[to] = there_ns + std::llround(1e9 * wire.wake_up_s);
    asleep_[rank] = false;
    there_ns = std::max(there_ns, awake_ns_[to]);
    answers_.emplace(there_ns + std::llround(1e9 * wire.latency_s), std::pair{to, wire::decode_probe(bytes).number});
  }

  /// The next answer; advances the time.
  std::pair<int, std::uint32_t> next() {
    const auto first = answers_.begin();
    now_ns_ = std::max(now_ns_, first->first);
    const auto answer = first->second;
    answers_.erase(first);
    return answer;
  }
  std::int64_t next_ns() const { return answers_.empty() ? INT64_MAX : answers_.begin()->first; }

 private:
  std::int64_t& now_ns_;
  const std::vector<Wire> wires_;
  std::vector<bool> asleep_;
  std::map<int, std::int64_t> awake_ns_;
  std::int64_t free_ns_ = 0;
  std::multimap<std::int64_t, std::pair<int, std::uint32_t>> answers_;
};

class LinkProbeTest : public testing::Test {
 protected:
  /// The measured links for these simulated ones, rank 0's first; `took_s`: duration of the measurement.
  std::vector<Link> found(const std::vector<Wire>& wires, double& took_s) {
    const std::int64_t began_ns = now_ns_;
    TimedTransport transport(now_ns_, wires);
    LinkProbe probe(transport);
    for (int i = 0; !probe.finished(); ++i) {
      if (i > 10'000) throw std::logic_error("no end");
      if (probe.advance(Clock::now())) continue;
      constexpr std::int64_t kTick = 1'000'000;
      if (transport.next_ns() > now_ns_ + kTick) {
        now_ns_ += kTick;
        continue;
      }
      const auto [rank, number] = transport.next();
      if (static_cast<int>(number) == hold_up_) now_ns_ += 4'000'000;
      probe.on_answer(rank, {number}, Clock::now());
    }
    took_s = 1e-9 * static_cast<double>(now_ns_ - began_ns);
    return probe.links();
  }

  std::int64_t now_ns_ = 1;
  const Clock::Override clock_{now_ns_};
  double took_s_ = 0;
  int hold_up_ = -1;
};

TEST_F(LinkProbeTest, LatencyRateAndWakeUp_areFoundOnNearLinks) {
  for (const double mbit : {1000.0, 100.0, 10.0}) {
    for (const double latency : {2e-5, 1e-4, 1e-3}) {
      const Wire wire{latency, mbit * 1e6 / 8, 2e-4};
      const auto links = found(std::vector<Wire>(8, wire), took_s_);
      for (std::size_t r = 1; r < links.size(); ++r) {
        SCOPED_TRACE(std::to_string(mbit) + " Mbit/s, " + std::to_string(latency) + " s, rank " + std::to_string(r));
        EXPECT_NEAR(links[r].latency_s, latency, 0.1 * latency + 2e-5);  // the time for a short message's bytes
        EXPECT_NEAR(links[r].wake_up_s, 2e-4, 3e-5);
        EXPECT_NEAR(links[r].bytes_per_s / wire.bytes_per_s, 1, 0.15);
      }
      EXPECT_LT(took_s_, mbit < 100 ? 0.12 : 0.055);
    }
  }
}

TEST_F(LinkProbeTest, FarRanks_areAskedBesideEachOther) {
  const auto links = found(std::vector<Wire>(8, {0.1, 1.25e6, 2e-4}), took_s_);
  for (std::size_t r = 1; r < links.size(); ++r) {
    EXPECT_NEAR(links[r].latency_s, 0.1, 1e-3);
    EXPECT_NEAR(links[r].bytes_per_s / 1.25e6, 1, 0.15);
  }
  EXPECT_LT(took_s_, 0.35) << "there and back, and a little for each";
}

TEST_F(LinkProbeTest, OneSlowLink_isToldFromTheOthers) {
  const auto links = found({{}, {}, {1e-3, 1.25e6, 0}, {}}, took_s_);
  EXPECT_NEAR(links[2].bytes_per_s / 1.25e6, 1, 0.15);
  EXPECT_NEAR(links[3].bytes_per_s / 125e6, 1, 0.15);
  EXPECT_NEAR(links[2].latency_s, 1e-3, 1e-4);
}

TEST_F(LinkProbeTest, HostThatWasHeldUpOnce_isNotTakenForASlowLink) {
  hold_up_ = 3;  // the answer of this number is delayed
  for (const double latency : {1e-4, 5e-2}) {
    const auto links = found({{}, {latency, 1.25e6, 0}}, took_s_);
    EXPECT_NEAR(links[1].bytes_per_s / 1.25e6, 1, 0.15) << latency;
  }
}

TEST_F(LinkProbeTest, AnswerToNothing_isAFault) {
  TimedTransport transport(now_ns_, std::vector<Wire>(3));
  LinkProbe probe(transport);
  EXPECT_THROW(probe.on_answer(1, {0}, Clock::now()), ClusterError);
  ASSERT_TRUE(probe.advance(Clock::now()));
  EXPECT_THROW(probe.on_answer(1, {1}, Clock::now()), ClusterError) << "the second before the first";
  EXPECT_THROW(probe.on_answer(2, {0}, Clock::now()), ClusterError);
  EXPECT_NO_THROW(probe.on_answer(1, {0}, Clock::now()));
  EXPECT_THROW(probe.on_answer(1, {0}, Clock::now()), ClusterError) << "twice";
}

}  // namespace
}  // namespace yamata
