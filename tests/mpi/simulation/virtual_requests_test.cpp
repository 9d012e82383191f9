// Requests in virtual time: when they come, how long they wait, and the speed of all.
#include "mpi/simulation/virtual_requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/mpi/simulation/virtual_jobs.hpp"

namespace yamata::simulation {
namespace {

constexpr Nanoseconds kSecond = 1000 * kMillisecond;

/// Tokens at these times.
TimedRequest request_at(Nanoseconds submitted, const std::vector<Nanoseconds>& seconds) {
  TimedRequest request{submitted, seconds};
  for (Nanoseconds& at : request.arrived) at *= kSecond;
  return request;
}

TEST(RequestTimes, AreAPoissonProcessThatBeginsNow) {
  constexpr int kCount = 4000;
  const auto times = request_times(kCount, 2, 7);
  EXPECT_EQ(times.front(), 0);
  EXPECT_TRUE(std::ranges::is_sorted(times));
  EXPECT_NEAR(static_cast<double>(times.back()), 0.5 * kCount * kSecond, 0.05 * 0.5 * kCount * kSecond);
  int longer = 0;  // than twice the mean gap: e^-2 of all
  for (int i = 1; i < kCount; ++i) longer += times[static_cast<std::size_t>(i)] - times[static_cast<std::size_t>(i) - 1] > kSecond ? 1 : 0;
  EXPECT_NEAR(longer / static_cast<double>(kCount), 0.135, 0.02);
  EXPECT_EQ(request_times(kCount, 2, 7), times);
  EXPECT_NE(request_times(kCount, 2, 8), times);
  EXPECT_EQ(request_times(3, 0, 7), std::vector<Nanoseconds>(3, 0));
}

TEST(TokensPerSecond, AreThoseOfTheTimeInWhichAllGrow) {
  EXPECT_DOUBLE_EQ(tokens_per_s({request_at(0, {10, 11, 12, 13, 14})}), 1);
  EXPECT_DOUBLE_EQ(tokens_per_s({request_at(0, {1, 2, 3, 4, 5}), request_at(0, {3, 4, 5, 6, 7})}), 2);
}

TEST(TokensPerSecond, OfTextsThatHardlyGrowTogether_areThoseOfTheWholeTime) {
  EXPECT_DOUBLE_EQ(tokens_per_s({request_at(0, {1, 2, 3}), request_at(kSecond, {4, 5, 6, 8})}), 7.0 / 8);
  EXPECT_DOUBLE_EQ(tokens_per_s({request_at(0, {1, 2, 3, 4, 6}), request_at(0, {5, 7}), request_at(0, {4, 10})}), 0.9);
  EXPECT_DOUBLE_EQ(tokens_per_s({request_at(2 * kSecond, {4})}), 0.5);
}

TEST(VirtualRequests, OneMoreThanThereAreSlots_waitsForTheEndOfAnother) {
  Scenario s = ideal(1, Strategy::kIterative);
  s.requests = 3;
  s.slots = 1;
  const Outcome outcome = simulate(s);
  EXPECT_TRUE(outcome.exact);
  ASSERT_EQ(outcome.requests.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(outcome.requests[i].submitted, 0);
    const Nanoseconds waited = static_cast<Nanoseconds>(i) * 64 * 24 * kMillisecond;
    EXPECT_EQ(outcome.requests[i].arrived.front(), waited + 24 * kMillisecond);
    EXPECT_EQ(outcome.requests[i].arrived.back(), waited + 64 * 24 * kMillisecond);
  }
}

TEST(VirtualRequests, ThatComeLater_areAnsweredFromThenOn) {
  Scenario s = ideal(3, Strategy::kIterative);
  s.requests = 4;
  s.requests_per_s = 0.1;
  const auto times = request_times(4, 0.1, s.text.seed);
  ASSERT_GT(times[1], 64 * 24 * kMillisecond) << "the first has ended";
  const Outcome outcome = simulate(s);
  EXPECT_TRUE(outcome.exact);
  for (std::size_t i = 0; i < times.size(); ++i) EXPECT_EQ(outcome.requests[i].submitted, times[i]);
  EXPECT_EQ(outcome.requests[1].arrived.front(), times[1] + 24 * kMillisecond);
  EXPECT_EQ(outcome.requests[1].arrived.back(), times[1] + 64 * 24 * kMillisecond);
}

TEST(VirtualRequests, WithADrafter_areStillTheTargetsTexts) {
  for (const Strategy strategy : {Strategy::kSpeculative, Strategy::kPipeInfer}) {
    Scenario s = real(3, strategy);
    s.requests = 12;
    s.requests_per_s = 5;
    s.slots = 3;
    const Outcome outcome = simulate(s);
    EXPECT_TRUE(outcome.exact);
    EXPECT_GT(outcome.counters.accepted, 20u);
    for (const TimedRequest& request : outcome.requests) {
      const auto grows = [at = request.arrived.front()](const TimedRequest& r) { return r.arrived.front() <= at && at < r.arrived.back(); };
      EXPECT_LE(std::ranges::count_if(outcome.requests, grows), 3) << "of each slot one";
    }
  }
}

}  // namespace
}  // namespace yamata::simulation
