// Group benchmarks with scripted times: layers that ranks of one process share.
#include "mpi/cluster/group_benchmark.hpp"

#include <gtest/gtest.h>

#include <map>

#include "mpi/transport/local_transport.hpp"
#include "node/error.hpp"
#include "src/simulation/table_model.hpp"

namespace yamata {
namespace {

using std::chrono::microseconds;

/// Gives the times of exchanges from the unit's script.
class ScriptedExchange final : public GroupExchange {
 public:
  explicit ScriptedExchange(std::vector<ExchangeTime>& times) : times_(times) {}
  int members() const override { return 2; }
  int own() const override { return 0; }
  bool all_gather(std::span<std::byte>, std::span<const std::size_t>, bool) override { return true; }
  void abandon() override {}
  std::vector<ExchangeTime> times() const override { return times_; }

 private:
  std::vector<ExchangeTime>& times_;
};

/// Computes at once, in virtual time: 100 us before the first of three exchanges, 20 us before each other one, 10 us after the last. An
/// exchange takes 30 us, and the first one ten times as long, because the others are late. The first run takes ten times as long.
class ScriptedUnit final : public simulation::TableUnit {
 public:
  explicit ScriptedUnit(std::int64_t& now_ns) : now_ns_(now_ns) {}
  void begin(const simulation::TableShape&, std::size_t rows, const std::atomic<bool>*, std::function<void(bool)> done) override {
    if (rows > 0) {
      const int times = ++runs == 1 || runs == disturbed ? 10 : 1;
      const std::int64_t began_ns = now_ns_;
      for (int exchange = 0; exchange < 3; ++exchange) {
        now_ns_ += 1000 * times * (exchange == 0 ? 100 : 20);
        const auto begin = Clock::now();
        now_ns_ += 1000 * times * (exchange == 0 ? 300 : 30);
        met.push_back({begin, Clock::now()});
      }
      now_ns_ += 1000 * times * 10;
      busy_s += 1e-9 * static_cast<double>(now_ns_ - began_ns);
      now_ns_ += 1'000'000;  // until the next check
    }
    done(!leaves);
  }
  bool finished() const override { return true; }
  bool was_stopped() const override { return leaves; }
  bool wait_for(microseconds) override { return true; }
  std::uint64_t progress() const override { return 0; }
  double busy_seconds() const override { return busy_s; }

  int runs = 0, disturbed = 0;
  double busy_s = 0;
  bool leaves = false;
  std::vector<ExchangeTime> met;

 private:
  std::int64_t& now_ns_;
};

/// Rank 0 of three.
class ScriptedTransport final : public Transport {
 public:
  explicit ScriptedTransport(ScriptedUnit& unit) : unit_(unit) {}
  int rank() const override { return 0; }
  int size() const override { return 3; }
  void send(int to, Tag tag, std::vector<std::byte> bytes) override {
    ASSERT_EQ(tag, Tag::kBenchmark);
    asked[to].push_back(wire::decode_benchmark_request(bytes));
  }
  std::optional<Message> receive() override { return std::nullopt; }
  std::size_t pending_sends() const override { return 0; }
  std::uint64_t bytes_sent() const override { return 0; }
  void forget(int) override {}
  bool forgotten(int) const override { return false; }
  std::unique_ptr<GroupExchange> join_group(std::span<const int>, int) override { return std::make_unique<ScriptedExchange>(unit_.met); }
  [[noreturn]] void abort(int) override { throw std::logic_error("abort"); }

  std::map<int, std::vector<wire::BenchmarkRequest>> asked;

 private:
  ScriptedUnit& unit_;
};

class GroupBenchmarkTest : public testing::Test {
 protected:
  LayerFactory factory() {
    return [this](LayerRange layers, const GroupMember& group) {
      made.push_back({layers, group.member});
      simulation::TableShape shape;
      shape.cells = 4;
      shape.logits = [](std::uint64_t, std::span<float>) {};
      return std::make_unique<simulation::TableModel>(shape, unit_);
    };
  }

  std::int64_t now_ns_ = 0;
  Clock::Override clock_{now_ns_};
  ScriptedUnit unit_{now_ns_};
  ScriptedTransport transport_{unit_};
  std::vector<std::pair<LayerRange, int>> made;
};

TEST_F(GroupBenchmarkTest, SharedLayer_countsComputingAndExchangesOfAllRunsButTheFirst) {
  SharedLayer layer(transport_, {{0, 2}, {0.5, 0.5}, 7, 2, 5}, factory());
  EXPECT_FALSE(layer.finished());
  while (layer.advance()) {
  }
  ASSERT_TRUE(layer.finished());
  EXPECT_EQ(made.front().first.begin, 7);
  EXPECT_EQ(made.front().first.end, 9);
  EXPECT_EQ(made.front().second, 0);
  EXPECT_EQ(unit_.runs, 5 + 1);
  EXPECT_NEAR(layer.result().computing_s, 150e-6, 1e-9) << "but for its exchanges";
  EXPECT_NEAR(layer.result().exchange_s, 30e-6, 1e-9);
}

TEST_F(GroupBenchmarkTest, RunThatSomethingDisturbed_doesNotCount) {
  unit_.disturbed = 3;
  SharedLayer layer(transport_, {{0, 2}, {0.5, 0.5}, 7, 1, 5}, factory());
  while (layer.advance()) {
  }
  EXPECT_NEAR(layer.result().computing_s, 150e-6, 1e-9);
  EXPECT_NEAR(layer.result().exchange_s, 30e-6, 1e-9);
}

TEST_F(GroupBenchmarkTest, LayerThatIsLeft_isAnError) {
  SharedLayer layer(transport_, {{0, 2}, {0.5, 0.5}, 7, 2, 5}, factory());
  EXPECT_TRUE(layer.advance());
  EXPECT_TRUE(layer.advance());
  EXPECT_TRUE(layer.advance());
  unit_.leaves = true;
  EXPECT_THROW(layer.advance(), ClusterError);
}

TEST_F(GroupBenchmarkTest, Head_asksOneGroupAfterTheOtherAndTakesTheMean) {
  const std::vector<wire::BenchmarkRequest> groups{{{0, 2}, {0.5, 0.5}, 3, 1, 4}, {{0, 1, 2}, {1, 1, 1}, 3, 1, 4}};
  const auto next = [&](std::span<const GroupTime> so_far) {
    return so_far.size() < groups.size() ? std::optional(groups[so_far.size()]) : std::nullopt;
  };
  GroupBenchmark benchmark(transport_, next, factory());
  const auto go_on = [&] {
    while (benchmark.advance()) {
    }
  };
  go_on();
  EXPECT_EQ(transport_.asked[2].size(), 1u);
  EXPECT_EQ(transport_.asked[1].size(), 0u);
  EXPECT_THROW(benchmark.on_answer(1, {}), ClusterError) << "no member";
  benchmark.on_answer(2, {250e-6, 10e-6});
  go_on();
  EXPECT_FALSE(benchmark.finished());
  ASSERT_EQ(benchmark.times().size(), 1u);
  EXPECT_EQ(benchmark.times()[0].ranks, (std::vector<int>{0, 2}));
  EXPECT_NEAR(benchmark.times()[0].computing_s, 200e-6, 1e-9);
  EXPECT_NEAR(benchmark.times()[0].exchange_s, 20e-6, 1e-9);
  EXPECT_EQ(transport_.asked[1].size(), 1u);
  benchmark.on_answer(1, {140e-6, 30e-6});
  benchmark.on_answer(2, {140e-6, 30e-6});
  go_on();
  EXPECT_TRUE(benchmark.finished());
  EXPECT_FALSE(benchmark.computing());
}

TEST_F(GroupBenchmarkTest, OfNoGroups_isFinished) {
  GroupBenchmark benchmark(
      transport_, [](std::span<const GroupTime>) { return std::nullopt; }, factory());
  EXPECT_TRUE(benchmark.finished());
  EXPECT_THROW(benchmark.on_answer(1, {}), ClusterError);
}

}  // namespace
}  // namespace yamata
