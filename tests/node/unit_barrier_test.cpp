// Synchronizations of units: no unit passes alone, all leave a run together, a failed unit is not waited for, and times are recorded per
// synchronization.
#include "node/unit_barrier.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <thread>

#include "node/cpu/cpu_unit.hpp"
#include "node/local_exchange.hpp"
#include "node/spin_wait.hpp"

namespace yamata {
namespace {

template <class Unit>
void in_threads(int units, Unit unit) {
  std::vector<std::thread> threads;
  for (int own = 0; own < units; ++own) threads.emplace_back([&unit, own] { unit(own); });
  for (auto& thread : threads) thread.join();
}

TEST(UnitBarrier, nobodyGoesOnBeforeAllHaveCome) {
  constexpr int kUnits = 3, kBarriers = 200;
  for (const int spins : {kSpinsBound, 0}) {
    UnitBarrier barrier(kUnits, spins);
    barrier.begin({});
    std::array<int, kUnits> done{};  // plain integers: the barrier synchronizes accesses to them
    in_threads(kUnits, [&](int own) {
      for (int i = 1; i <= kBarriers; ++i) {
        done[static_cast<std::size_t>(own)] = i;
        ASSERT_TRUE(barrier.wait(own, true));
        for (const int other : done) ASSERT_EQ(other, i);
        ASSERT_TRUE(barrier.wait(own, true));
      }
      EXPECT_EQ(barrier.arrivals(own), 2u * kBarriers);
    });
  }
}

TEST(UnitBarrier, oneThatGivesUpIsSeenByAllAtTheSameBarrier) {
  constexpr int kUnits = 4;
  UnitBarrier barrier(kUnits, kSpinsUnbound);
  for (int who = 0; who < kUnits; ++who) {
    for (const int when : {0, 1, 7}) {
      barrier.begin({});
      std::array<int, kUnits> left{};
      in_threads(kUnits, [&](int own) {
        int i = 0;
        while (barrier.wait(own, own != who || i < when)) ++i;
        left[static_cast<std::size_t>(own)] = i;
      });
      for (const int at : left) EXPECT_EQ(at, when);
    }
  }
}

TEST(UnitBarrier, inAGroupOnlyAnExchangeEndsTheRun) {
  UnitBarrier barrier(2, kSpinsUnbound);
  std::atomic<bool> stop{false};
  for (const bool by_stop : {false, true}) {
    barrier.begin({.label = {}, .labels = 1, .stop = &stop, .in_group = true});
    stop = by_stop;
    in_threads(2, [&](int own) {
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(barrier.wait(own, by_stop || own == 0)) << "the other ranks would wait";
      EXPECT_FALSE(barrier.wait(own, true, [](bool all) { return all; }));
    });
  }
}

TEST(UnitBarrier, theLastToComeActsOnceForAll) {
  constexpr int kUnits = 3;
  UnitBarrier barrier(kUnits, kSpinsUnbound);
  barrier.begin({});
  int acts = 0;
  in_threads(kUnits, [&](int own) {
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(barrier.wait(own, true, [&](bool all) { return ++acts, all; }));
    EXPECT_FALSE(barrier.wait(own, true, [&](bool) { return false; })) << "what it says goes";
  });
  EXPECT_EQ(acts, 50);
}

TEST(UnitBarrier, whoeverWaitsLeavesOnceItIsAbandoned) {
  UnitBarrier barrier(3, kSpinsUnbound);
  barrier.begin({});
  in_threads(3, [&](int own) {
    if (own == 2) return barrier.abandon();
    EXPECT_FALSE(barrier.wait(own, true));
    EXPECT_FALSE(barrier.wait(own, true)) << "nor does it wait again";
  });
  barrier.begin({});
  in_threads(3, [&](int own) { EXPECT_TRUE(barrier.wait(own, true)) << "the next run is not abandoned"; });
}

TEST(UnitBarrier, aFaultOfTheExchangeReachesOneAndEndsTheWaitOfAll) {
  UnitBarrier barrier(2, kSpinsUnbound);
  barrier.begin({});
  std::atomic<int> thrown{0}, left{0};
  in_threads(2, [&](int own) {
    try {
      left += !barrier.wait(own, true, [](bool) -> bool { throw std::runtime_error("lost"); });
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  });
  EXPECT_EQ(thrown, 1);
  EXPECT_EQ(left, 1);
}

TEST(UnitBarrier, countsTimeByWhatWasComputed) {
  UnitBarrier barrier(2, kSpinsUnbound);
  const std::vector<int> labels{1, 0, 1};
  barrier.begin({.label = labels, .labels = 2});
  const auto began = UnitBarrier::Clock::now();
  in_threads(2, [&](int own) {
    for (std::size_t i = 0; i < labels.size(); ++i) barrier.wait(own, true);
  });
  const double took_s = std::chrono::duration<double>(UnitBarrier::Clock::now() - began).count();
  for (const int unit : {0, 1}) {
    EXPECT_GT(barrier.computed_s(1, unit), 0);
    EXPECT_LE(barrier.computed_s(0, unit) + barrier.computed_s(1, unit), took_s);
  }
}

/// A member's units write its slice together, and each then reads the slices of all members.
TEST(MemberUnits, exchangeOnceAndShareTheSlices) {
  constexpr int kMembers = 2, kUnits = 2, kRounds = 40;
  constexpr std::size_t kSlice = sizeof(SliceHeader) + kUnits;
  const std::vector<std::size_t> ends{kSlice, 2 * kSlice};
  LocalGroup group(kMembers);
  in_threads(kMembers, [&](int m) {
    const auto exchange = group.member(m);
    UnitBarrier barrier(kUnits, kSpinsUnbound);
    CpuUnit memory({-1}, cpu::Isa::kScalar);
    MemberUnits member(barrier, memory);
    barrier.begin({});
    member.begin(exchange.get());
    member.reserve(2 * kSlice);
    in_threads(kUnits, [&](int own) {
      GroupExchange& unit = member.in_group(own);
      EXPECT_EQ(unit.members(), kMembers);
      EXPECT_EQ(unit.own(), m);
      EXPECT_EQ(member.among_units(own).members(), 1);
      for (int round = 0; round < kRounds; ++round) {
        if (round % 3 == 0) {  // the group does not see it
          ASSERT_TRUE(member.among_units(own).all_gather(member.among_units(own).shared_slices(kSlice), {&kSlice, 1}, true));
        }
        const auto slices = unit.shared_slices(2 * kSlice);
        slices[static_cast<std::size_t>(m) * kSlice + sizeof(SliceHeader) + static_cast<std::size_t>(own)] =
            static_cast<std::byte>(round + 10 * m + own);
        const bool wants = round + 1 < kRounds || m != 1 || own != 1;
        ASSERT_EQ(unit.all_gather(slices, ends, wants), round + 1 < kRounds) << "one unit of one member gives up for all";
        for (int of = 0; wants && round + 1 < kRounds && of < kMembers; ++of)
          for (int u = 0; u < kUnits; ++u)
            ASSERT_EQ(slices[static_cast<std::size_t>(of) * kSlice + sizeof(SliceHeader) + static_cast<std::size_t>(u)],
                      static_cast<std::byte>(round + 10 * of + u));
      }
    });
  });
}

}  // namespace
}  // namespace yamata
