// What results tell of links: pipelines whose times can be worked out, with and without queues, noise and cancelled runs.
#include "src/speculation/link_rate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

namespace yamata {
namespace {

constexpr double kStageS = 0.016, kFurtherRow = 0.05;

/// Stages and links one after the other; what is sent comes back to a LinkRate.
struct Line {
  explicit Line(int stages, double row_s, double latency_s = 0.005)
      : row_s(row_s), latency_s(latency_s), slowness(static_cast<std::size_t>(stages), 1.0), links(stages, kResultShare) {
    stage_free.resize(slowness.size());
    link_free.resize(slowness.size());
  }

  static double stage_s(int rows) { return kStageS * (1 + kFurtherRow * (rows - 1)); }

  /// Gives the time of the result; a run that is `skipped` leaves before the second stage.
  double send(int rows, double at, bool skipped = false) {
    double now = at;
    for (std::size_t s = 0; s < slowness.size(); ++s) {
      const bool last = s + 1 == slowness.size(), computed = !skipped || s == 0;
      const double lasts = computed ? stage_s(rows) * slowness[s] * noise() : 0;
      const double transfer = computed ? rows * row_s * (last ? kResultShare : 1) : 0;
      now = stage_free[s] = std::max(now, stage_free[s]) + lasts;
      now = link_free[s] = std::max(now, link_free[s]) + transfer;
      now += latency_s;
    }
    ReturnedRun run{.rows = rows, .stage_s = stage_s(rows), .sent_s = at, .returned_s = now, .skipped = skipped};
    if (skipped) run.cancelled_s = at + 1.5 * kStageS;
    links.returned(run);
    return now;
  }

  /// As `speculative` does: each after the result before.
  void send_singly(int runs) {
    for (int i = 0; i < runs; ++i) at = send(1 + i % 4, at);
  }

  /// As `pipeinfer` does: as soon as the first stage is free.
  void send_streaming(int runs, int widest) {
    for (int i = 0; i < runs; ++i) {
      at = std::max(at, stage_free[0]);
      if (in_flight.size() >= kMaxInFlight) {
        at = std::max(at, in_flight.front());
        in_flight.pop_front();
      }
      in_flight.push_back(send(std::uniform_int_distribution(1, widest)(random), at));
    }
  }

  double noise() { return 1 + noise_share * std::uniform_real_distribution<double>(-1, 1)(random); }

  static constexpr double kResultShare = 0.02;
  static constexpr std::size_t kMaxInFlight = 8;
  std::deque<double> in_flight;  // when their results will be there
  double row_s, latency_s, noise_share = 0, at = 1;
  std::vector<double> slowness, stage_free, link_free;
  std::mt19937 random{1};
  LinkRate links;
};

TEST(LinkRate, RunsOfSeveralWidths_tellWhatARowCosts) {
  for (const int stages : {2, 3, 8}) {
    for (const double latency_s : {0.0001, 0.025, 0.1}) {
      for (const double row_s : {0.0013, 0.013, 0.1}) {
        Line line(stages, row_s, latency_s);
        line.send_singly(40);
        EXPECT_NEAR(line.links.row_s(), row_s, std::max(0.3 * row_s, 0.1 * kStageS)) << stages << " stages, " << latency_s;
        EXPECT_DOUBLE_EQ(line.links.result_s(), Line::kResultShare * line.links.row_s());
      }
    }
  }
}

TEST(LinkRate, QueueOnALink_isToldFromItsLatency) {
  for (const double row_s : {0.0013, 0.013, 0.03}) {
    Line line(3, row_s, 0.025);
    line.send_streaming(80, 3);
    EXPECT_NEAR(line.links.row_s(), row_s, std::max(0.3 * row_s, 0.1 * kStageS));
  }
}

TEST(LinkRate, StagesThatVary_changeLittle) {
  for (int widest = 2; widest <= 8; widest += 2) {
    for (int seed = 1; seed <= 8; ++seed) {
      Line slow(3, 0.013, 0.025), fast(3, 0.0001, 0.025);
      for (Line* line : {&slow, &fast}) {
        line->noise_share = 0.3;
        line->random.seed(static_cast<unsigned>(seed));
        line->send_streaming(200, widest);
      }
      EXPECT_NEAR(slow.links.row_s(), 0.013, 0.5 * 0.013) << widest << " rows, seed " << seed;
      EXPECT_LT(fast.links.row_s(), 0.1 * kStageS) << widest << " rows, seed " << seed;
    }
  }
}

TEST(LinkRate, SlowStage_isNotTakenForASlowLink) {
  Line line(3, 0.0001);
  line.slowness[2] = 1.8;
  line.send_streaming(80, 3);
  EXPECT_LT(line.links.row_s(), 0.1 * kStageS);
}

TEST(LinkRate, SkippedRuns_takeTimeOnlyWhereTheyWereComputed) {
  Line line(3, 0.013);
  for (int i = 0; i < 80; ++i, line.at += 2 * kStageS) {
    const bool skipped = i % 2 == 1;
    line.send(skipped ? 8 : 1 + i % 3, line.at, skipped);
  }
  EXPECT_NEAR(line.links.row_s(), 0.013, 0.3 * 0.013);
}

TEST(LinkRate, LinkThatChanges_isNoticedWithinAHundredRuns) {
  Line line(3, 0.0001);
  line.send_singly(100);
  EXPECT_LT(line.links.row_s(), 0.001);
  line.row_s = 0.013;
  line.send_singly(80);
  EXPECT_NEAR(line.links.row_s(), 0.013, 0.3 * 0.013);
  line.row_s = 0.0001;
  line.send_singly(100);
  EXPECT_LT(line.links.row_s(), 0.004);
}

TEST(LinkRate, RunsOfOneRow_tellNothing_andTheLeastIsTried_untilAWideRunTells) {
  Line line(3, 0.013, 0.025);
  line.send_streaming(80, 3);
  line.send_streaming(300, 1);
  EXPECT_LT(line.links.row_s(), 0.009);
  line.send_streaming(3, 3);
  EXPECT_NEAR(line.links.row_s(), 0.013, 0.3 * 0.013);
}

TEST(LinkRate, WithoutALink_rowsCostNothing) {
  Line line(1, 0.1);
  line.links.expect(0.1);
  EXPECT_EQ(line.links.row_s(), 0);
  line.send_singly(20);
  EXPECT_EQ(line.links.row_s(), 0);
}

TEST(LinkRate, ExpectedRate_countsUntilResultsTellOfAnother) {
  Line line(3, 0.0001);
  EXPECT_EQ(line.links.row_s(), 0);
  line.links.expect(0.006);
  EXPECT_NEAR(line.links.row_s(), 0.006, 0.25 * 0.006);
  line.send_singly(3);
  EXPECT_GT(line.links.row_s(), 0.002);
  line.send_singly(60);
  EXPECT_LT(line.links.row_s(), 0.001);
}

TEST(LinkRate, PromptsTime_isAtMostThatOfItsStagesAndLinks) {
  // Three stages of 100 ms and two links of 64 rows.
  EXPECT_NEAR(most_link_s(3, 1, 64, 0.1, 0.3 + 2 * 64 * 0.001), 0.001, 1e-12);
  // Four chunks of 16 rows: six stages' times, and on the links five chunks one after the other.
  EXPECT_NEAR(most_link_s(3, 4, 64, 0.025, 6 * 0.025 + 5 * 16 * 0.001), 0.001, 1e-12);
  EXPECT_EQ(most_link_s(3, 1, 64, 0.1, 0.2), 0);
  EXPECT_EQ(most_link_s(1, 1, 64, 0.1, 1), 0);
}

}  // namespace
}  // namespace yamata
