// Messages and computations in virtual time.
#include "mpi/simulation/virtual_network.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <vector>

#include "mpi/protocol/wire.hpp"

namespace yamata::simulation {
namespace {

TEST(VirtualNetwork, Messages_weighWhatRealOnesWouldAndLeaveOneAfterTheOther) {
  VirtualNetwork network(3, {1000, 1e9, 0}, {4096, 32000}, 64);
  std::deque<VirtualTransport> transports;
  std::deque<VirtualUnit> units;
  for (int r = 0; r < 3; ++r) {
    transports.emplace_back(network, r);
    units.emplace_back(network, r, 1.0);
  }
  const std::vector<float> rows(2 * TableModel::kWidth), logits(64);
  const std::vector<std::int32_t> best{5, 7};
  const auto header = static_cast<Nanoseconds>(wire::encode(wire::Rows{}).size());
  transports[0].send(1, Tag::kActivations, wire::encode(wire::Rows{1, false, rows}));
  transports[0].send(2, Tag::kLogits, wire::encode(wire::Rows{1, false, logits}));
  transports[0].send(2, Tag::kLogits, wire::encode(wire::Rows{1, false, std::span(logits).first(2), best, 64}));
  transports[0].send(1, Tag::kCancel, wire::Bytes(10));
  wire::Commit commit;
  commit.tokens = {3};
  const auto plain_commit = static_cast<Nanoseconds>(wire::encode(commit).size());
  commit.features.assign(TableModel::kWidth, 0);
  transports[0].send(1, Tag::kCommit, wire::encode(commit));
  std::vector<std::pair<Nanoseconds, Tag>> taken;
  const auto step = [&](std::size_t rank) {
    const auto message = transports[rank].receive();
    if (message) taken.push_back({network.now(), message->tag});
    return message.has_value();
  };
  while (network.advance(step)) {
  }
  const Nanoseconds first = header + 2 * 4096 * 4, second = first + header + 32000 * 4, third = second + header + 2 * 8;
  ASSERT_EQ(taken.size(), 5u);
  EXPECT_EQ(taken[0], std::pair(first + 1000, Tag::kActivations));
  EXPECT_EQ(taken[1], std::pair(second + 1000, Tag::kLogits));
  EXPECT_EQ(taken[2], std::pair(third + 1000, Tag::kLogits));
  EXPECT_EQ(taken[3], std::pair(third + 10 + 1000, Tag::kCancel));
  const Nanoseconds last = third + 10 + plain_commit + 4096 * 4;
  EXPECT_EQ(taken[4], std::pair(last + 1000, Tag::kCommit));
  EXPECT_EQ(transports[0].bytes_sent(), static_cast<std::uint64_t>(last));
}

TEST(VirtualUnit, Run_takesItsShapesTimeForSoManyRows) {
  VirtualNetwork network(1, {}, {}, 64);
  VirtualTransport transport(network, 0);
  VirtualUnit unit(network, 0, 2.0);
  TableShape shape;
  shape.one_row_ns = 1000;
  shape.width = WidthCost({1, 1.5});
  const std::atomic<bool> stop{false};
  unit.begin(shape, 3, &stop, [](bool) {});
  while (!unit.finished() && network.advance([](std::size_t) { return false; })) {
  }
  EXPECT_EQ(network.now(), 4000);
}

TEST(VirtualUnit, StoppedRun_endsWithItsOperation) {
  VirtualNetwork network(2, {350, 1e18, 0}, {}, 64);
  VirtualTransport sender(network, 0), receiver(network, 1);
  VirtualUnit idle(network, 0, 1.0), unit(network, 1, 1.0);
  TableShape shape;
  shape.operations = 10;
  shape.one_row_ns = 1000;
  std::atomic<bool> stop{false};
  bool completed = true;
  unit.begin(shape, 1, &stop, [&](bool whole) { completed = whole; });
  sender.send(1, Tag::kCancel, {});
  const auto step = [&](std::size_t rank) {
    if (rank == 1 && receiver.receive()) stop = true;
    return false;
  };
  while (!unit.finished() && network.advance(step)) {
  }
  EXPECT_FALSE(completed);
  EXPECT_EQ(network.now(), 400);
  EXPECT_EQ(unit.busy_until(network.now()), 400);
}

}  // namespace
}  // namespace yamata::simulation
