// A worker whose head falls silent or leaves it out.
#include "mpi/cluster/rank_lost.hpp"
#include "node/clock.hpp"
#include "tests/mpi/cluster/worker_fixture.hpp"

namespace yamata::test {
namespace {

/// Rank 2 of three, a stage, in virtual time. Its head sends a message and then falls silent; the test also plays rank 1.
class SilentHead : public WorkerTest {
 protected:
  SilentHead() : clock_(now_ns_), three_(3), silent_(three_, 0), lower_(three_, 1), own_(three_, 2) {
    setup_.timeout = std::chrono::milliseconds(1000);
    worker_.emplace(own_, setup_);
    worker_->begin();
  }
  void plan(const wire::Start& plan) {
    silent_.send(2, Tag::kStart, wire::encode(plan));
    worker_->step();
  }
  enum class Lower { kDead, kHearsNoHead, kHearsHead };
  /// Milliseconds until the worker ends the job; -1: not within ten seconds. `lower`: the state of rank 1.
  int ends_job_after(Lower lower) {
    for (int ms = 50; ms <= 10000; ms += 50) {
      now_ns_ += 50'000'000;
      wire::Heartbeat heartbeat;
      heartbeat.asks = lower == Lower::kHearsNoHead;
      if (lower == Lower::kHearsHead) heartbeat.hears = {0, 2};
      if (heartbeat.asks || (lower == Lower::kHearsHead && asked(lower_))) lower_.send(2, Tag::kHeartbeat, wire::encode(heartbeat));
      try {
        worker_->step();
      } catch (const RankLost& lost) {
        EXPECT_EQ(lost.rank, 0);
        line_ = lost.what();
        return ms;
      }
    }
    return -1;
  }
  /// Whether the worker has asked this rank since the last call.
  static bool asked(LocalTransport& rank) {
    bool any = false;
    while (const auto message = rank.receive()) any |= message->tag == Tag::kHeartbeat && wire::decode_heartbeat(message->bytes).asks;
    return any;
  }

  std::string line_;
  std::int64_t now_ns_ = 1;
  const Clock::Override clock_;
  LocalNetwork three_;
  LocalTransport silent_, lower_, own_;
};

TEST_F(SilentHead, OneThatServes_isWaitedForLessLong) {
  setup_.serving_timeout = std::chrono::milliseconds(200);
  plan(plan_over({0, 1, 2}));
  wire::Heartbeat serving;
  serving.serving = true;
  silent_.send(2, Tag::kHeartbeat, wire::encode(serving));
  const int after = ends_job_after(Lower::kDead);
  EXPECT_GE(after, 200);
  EXPECT_LE(after, 800);
}

TEST_F(SilentHead, RankThatHearsNoLowerOne_endsTheJobAfterTheDeadline) {
  plan(plan_over({0, 1, 2}));
  const int after = ends_job_after(Lower::kDead);
  EXPECT_GE(after, 1000);
  EXPECT_LE(after, 2000);
}

TEST_F(SilentHead, LowerRank_endsTheJobForAll_unlessItDiesToo) {
  plan(plan_over({0, 1, 2}));
  EXPECT_EQ(ends_job_after(Lower::kHearsNoHead), -1);
  const int after = ends_job_after(Lower::kDead);
  EXPECT_GE(after, 500);
  EXPECT_LE(after, 3500);
}

TEST_F(SilentHead, HeadThatALowerRankHears_isExpectedToReport_andElseTheLinkIsNamed) {
  plan(plan_over({0, 1, 2}));
  const int after = ends_job_after(Lower::kHearsHead);
  EXPECT_GE(after, 2500);
  EXPECT_LE(after, 3500);
  EXPECT_NE(line_.find("have not heard each other"), std::string::npos) << line_;
}

TEST_F(SilentHead, RankThatTheHeadAsks_sendsHeartbeatsToTheOthers_andSaysWhomItHears) {
  plan(plan_over({0, 1, 2}));
  wire::Heartbeat question;
  question.asks = true;
  lower_.send(2, Tag::kHeartbeat, wire::encode(wire::Heartbeat{}));
  silent_.send(2, Tag::kHeartbeat, wire::encode(question));
  now_ns_ += 400'000'000;
  worker_->step();
  const auto message = lower_.receive();
  ASSERT_TRUE(message && message->tag == Tag::kHeartbeat);
  const wire::Heartbeat shown = wire::decode_heartbeat(message->bytes);
  EXPECT_FALSE(shown.asks) << "it needs no answer";
  EXPECT_EQ(shown.hears, (std::vector<std::int32_t>{0, 1}));
  std::optional<wire::Heartbeat> told;
  while (const auto sent = silent_.receive()) {
    if (sent->tag == Tag::kHeartbeat) told = wire::decode_heartbeat(sent->bytes);
  }
  ASSERT_TRUE(told);
  EXPECT_EQ(told->hears, (std::vector<std::int32_t>{0, 1}));
}

TEST_F(SilentHead, LowerRankThatDrafts_isNotWaitedFor) {
  plan(plan_with_drafter({0, 2}, 1));
  const int after = ends_job_after(Lower::kHearsNoHead);
  EXPECT_GE(after, 1000);
  EXPECT_LE(after, 2000);
}

/// The job does not need rank 2, which drafts, once the head has said so.
class SilentHeadOfADrafter : public SilentHead {
 protected:
  void serve(const wire::Start& job) {
    setup_.reaches_launcher = [] { return std::optional(true); };
    setup_.head_unheard = [this] { unheard_ = true; };
    plan(job);
    wire::Heartbeat serving;
    serving.can_lose_drafters = true;
    silent_.send(2, Tag::kHeartbeat, wire::encode(serving));
    worker_->step();
  }

  bool unheard_ = false;
};

TEST_F(SilentHeadOfADrafter, HeadThatAloneHoldsTheTarget_isReported) {
  serve(plan_with_drafter({0}, 2));
  const int after = ends_job_after(Lower::kDead);
  EXPECT_GE(after, 2250) << "a head that lives has time to leave it out";
  EXPECT_LE(after, 3250);
  EXPECT_FALSE(unheard_);
}

TEST_F(SilentHeadOfADrafter, LowerRankReportsIt_unlessItDiesToo) {
  serve(plan_with_drafter({0}, 2));
  EXPECT_EQ(ends_job_after(Lower::kHearsNoHead), -1);
  EXPECT_GE(ends_job_after(Lower::kDead), 500);
}

TEST_F(SilentHeadOfADrafter, StageReportsIt_unlessItDiesToo) {
  serve(plan_with_drafter({0, 1}, 2));
  EXPECT_EQ(ends_job_after(Lower::kHearsNoHead), -1);
  EXPECT_GE(ends_job_after(Lower::kDead), 500);
}

TEST_F(SilentHeadOfADrafter, IfAStageHearsTheHead_theJobContinues) {
  serve(plan_with_drafter({0, 1}, 2));
  EXPECT_EQ(ends_job_after(Lower::kHearsHead), -1);
  EXPECT_TRUE(unheard_);
}

TEST_F(SilentHeadOfADrafter, AllRanksOfTheTargetSilent_isReported) {
  serve(plan_with_drafter({0, 1}, 2));
  const int after = ends_job_after(Lower::kDead);
  EXPECT_GE(after, 2250) << "a head that lives has time to leave it out";
  EXPECT_LE(after, 3250);
  EXPECT_FALSE(unheard_);
}

TEST_F(SilentHead, Worker_answersARankThatAsks_once) {
  plan(plan_over({0, 1, 2}));
  wire::Heartbeat question;
  question.asks = true;
  lower_.send(2, Tag::kHeartbeat, wire::encode(question));
  lower_.send(2, Tag::kHeartbeat, wire::encode(wire::Heartbeat{}));
  worker_->step();
  int answers = 0;
  while (const auto message = lower_.receive()) {
    ASSERT_EQ(message->tag, Tag::kHeartbeat);
    EXPECT_FALSE(wire::decode_heartbeat(message->bytes).asks);
    ++answers;
  }
  EXPECT_EQ(answers, 1);
}

TEST_F(SilentHeadOfADrafter, RankThatWasCutOffFromTheLauncher_doesNotEndTheJob) {
  serve(plan_with_drafter({0}, 2));
  setup_.reaches_launcher = [asked = 0]() mutable { return std::optional(++asked != 2); };
  EXPECT_EQ(ends_job_after(Lower::kDead), -1);
  EXPECT_TRUE(unheard_);
}

TEST_F(SilentHeadOfADrafter, RankThatTheHeadHasLeftOutUnheard_doesNotEndTheJob) {
  setup_.announced_left_out = [] { return true; };
  for (const wire::Start& job : {plan_with_drafter({0}, 2), plan_with_drafter({0, 1}, 2)}) {
    worker_.emplace(own_, setup_);
    worker_->begin();
    serve(job);
    EXPECT_EQ(ends_job_after(Lower::kDead), -1);
    EXPECT_TRUE(std::exchange(unheard_, false));
  }
}

TEST_F(SilentHeadOfADrafter, RankThatWasLeftOut_doesNotEndTheJob) {
  serve(plan_with_drafter({0}, 2));
  silent_.send(2, Tag::kLeftOut, {});
  EXPECT_EQ(ends_job_after(Lower::kDead), -1);
  EXPECT_TRUE(unheard_);
}

TEST_F(SilentHead, DrafterThatFailedBeforeTheHeadServed_andIsLeftOut_doesNotEndTheJob) {
  plan(plan_with_drafter({0, 1}, 2));
  silent_.send(2, Tag::kRecord, wire::Bytes(3));
  worker_->step();
  ASSERT_EQ(worker_->state(), Worker::State::kFailed);
  silent_.send(2, Tag::kLeftOut, {});
  EXPECT_EQ(ends_job_after(Lower::kDead), -1);
}

}  // namespace
}  // namespace yamata::test
