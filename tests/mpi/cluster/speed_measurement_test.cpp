// When speeds are measured, and which ranks receive the results.
#include "mpi/cluster/speed_measurement.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "mpi/cluster/head.hpp"
#include "mpi/transport/local_transport.hpp"
#include "node/error.hpp"
#include "tests/node/little_memory.hpp"

namespace yamata {
namespace {

std::vector<wire::Hello> on(const std::vector<std::uint64_t>& machines) {
  std::vector<wire::Hello> hellos(machines.size());
  for (std::size_t r = 0; r < machines.size(); ++r) hellos[r].machine = machines[r];
  return hellos;
}

std::vector<int> sorted(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  return ranks;
}

TEST(MeasuringOrder, RanksOfOneMachine_measureOneAfterAnother) {
  MeasuringOrder order(on({5, 7, 5, 5}));
  EXPECT_EQ(sorted(order.first()), (std::vector<int>{0, 1}));
  EXPECT_EQ(order.after(0), 2);
  EXPECT_EQ(order.after(1), std::nullopt);
  EXPECT_FALSE(order.finished());
  EXPECT_EQ(order.after(2), 3);
  EXPECT_EQ(order.after(3), std::nullopt);
  EXPECT_TRUE(order.finished());
}

TEST(MeasuringOrder, RanksThatDoNotKnowTheirMachine_areAloneThere) {
  EXPECT_EQ(sorted(MeasuringOrder(on({0, 0, 0})).first()), (std::vector<int>{0, 1, 2}));
}

TEST(MeasuringOrder, RankWhoseTurnItIsNot_isAFault) {
  MeasuringOrder order(on({5, 5}));
  EXPECT_THROW(order.after(1), ClusterError);
  order.after(0);
  EXPECT_THROW(order.after(0), ClusterError);
  order.after(1);
  EXPECT_THROW(order.after(1), ClusterError) << "twice";
}

/// The head of three ranks; the test plays the others. There is no plan: the planner's call ends the job.
class MeasuringHead : public testing::Test {
 protected:
  struct Planned {
    std::vector<wire::Hello> hellos;
  };
  MeasuringHead() : network_(3), transport_(network_, 0) {
    options_.measure = [](const std::atomic<bool>&) { return wire::Measured{0.5, {1.5}}; };
    begin();
  }
  void begin() {
    head_.emplace(transport_, options_);
    head_->begin(hello(5), {42}, [](const std::vector<wire::Hello>& hellos) -> wire::Start { throw Planned{hellos}; }, {});
  }
  static wire::Hello hello(std::uint64_t machine) {
    wire::Hello hello;
    hello.fingerprints = {42};
    hello.machine = machine;
    return hello;
  }
  void send(int from, Tag tag, wire::Bytes bytes) { LocalTransport(network_, from).send(0, tag, std::move(bytes)); }
  /// Whether a rank has been asked since the last call.
  bool asked(int rank) {
    bool is = false;
    LocalTransport transport(network_, rank);
    while (const auto message = transport.receive()) is |= message->tag == Tag::kMeasure;
    return is;
  }
  /// Advances until the head's own measurement has finished, too.
  void play(int steps = 200) {
    while (steps-- > 0) {
      if (!head_->step()) head_->rest();
    }
  }

  LocalNetwork network_;
  LocalTransport transport_;
  ClusterOptions options_;
  std::optional<Head> head_;
};

TEST_F(MeasuringHead, Nobody_measuresBeforeAllAreThere) {
  send(1, Tag::kHello, wire::encode(hello(7)));
  play(5);
  EXPECT_EQ(head_->state(), Head::State::kGathering);
  EXPECT_FALSE(asked(1));
  send(2, Tag::kHello, wire::encode(hello(7)));
  play(5);
  EXPECT_TRUE(asked(1));
  EXPECT_FALSE(asked(2)) << "it is on the machine of 1";
  send(1, Tag::kMeasured, wire::encode(wire::Measured{0.25, {}}));
  play(5);
  EXPECT_TRUE(asked(2));
}

TEST_F(MeasuringHead, Plan_followsWhatRanksHaveMeasured) {
  send(1, Tag::kHello, wire::encode(hello(7)));
  send(2, Tag::kHello, wire::encode(hello(8)));
  play(5);
  send(1, Tag::kMeasured, wire::encode(wire::Measured{0.25, {2, 3}}));
  send(2, Tag::kMeasured, wire::encode(wire::Measured{1, {}}));
  try {
    play();
    FAIL() << "it has planned nothing";
  } catch (const Planned& planned) {
    EXPECT_EQ(planned.hellos[0].measured.ns_per_byte, 0.5);
    EXPECT_EQ(planned.hellos[1].measured.ns_per_byte, 0.25);
    EXPECT_EQ(planned.hellos[1].measured.width_multiples, (std::vector<double>{2, 3}));
    EXPECT_EQ(planned.hellos[2].measured.ns_per_byte, 1);
  }
}

TEST_F(MeasuringHead, RankThatNeverEnds_isNamedAfterTheTimeout) {
  options_.timeout = std::chrono::milliseconds(40);
  begin();
  send(1, Tag::kHello, wire::encode(hello(7)));
  send(2, Tag::kHello, wire::encode(hello(7)));
  try {
    for (int i = 0; i < 10'000'000; ++i) {  // seconds
      for (const int rank : {1, 2}) send(rank, Tag::kHeartbeat, wire::encode(wire::Heartbeat{}));
      play(1);
    }
    FAIL() << "it is waited for";
  } catch (const RankLost& lost) {
    EXPECT_EQ(lost.rank, 1);
    EXPECT_NE(std::string(lost.what()).find("measured its speed"), std::string::npos) << lost.what();
  }
}

TEST_F(MeasuringHead, SpeedThatNobodyAskedFor_isAFault) {
  send(1, Tag::kMeasured, wire::encode(wire::Measured{0.25, {}}));
  EXPECT_THROW(play(5), ClusterError);
}

#ifdef YAMATA_TEST_LITTLE_MEMORY
TEST(SpeedMeasurementDeathTest, ThreadThatCannotStart_isAnErrorWithARemedy) {
  const auto many = [] {
    const auto until_stopped = [](const std::atomic<bool>& stop) {
      while (!stop) std::this_thread::yield();
      return wire::Measured{};
    };
    std::vector<std::unique_ptr<SpeedMeasurement>> measurements;
    for (int i = 0; i < 100; ++i) measurements.push_back(std::make_unique<SpeedMeasurement>(until_stopped));
  };
  EXPECT_EXIT(test::end_in_little_memory(many), testing::ExitedWithCode(2), "cannot start a thread: .*ulimit -u");
}
#endif

}  // namespace
}  // namespace yamata
