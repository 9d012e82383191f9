// A single worker, message by message: its states, and invalid messages.
#include "mpi/cluster/worker.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "mpi/cluster/rank_lost.hpp"
#include "mpi/transport/local_transport.hpp"
#include "node/error.hpp"
#include "tests/mpi/simulation/random_network.hpp"

namespace yamata::test {
namespace {

/// Rank 1 of two, the last stage of the target; the test plays the head.
class WorkerTest : public testing::Test {
 protected:
  WorkerTest() : network_(2), head_(network_, 0), transport_(network_, 1) {
    setup_.host = "host1";
    setup_.open = [] { return wire::Hello{}; };
    setup_.make_stage = [this](const wire::PipelinePlan& plan, std::size_t stage, CacheTypes, const GroupMember&) {
      simulation::TableShape shape;
      shape.stage = static_cast<std::int32_t>(stage), shape.stages = 2;
      shape.cells = plan.cells, shape.sequences = plan.sequences;
      shape.logits = [](std::uint64_t prefix, std::span<float> logits) { table_logits(prefix, 1, logits); };
      return std::make_unique<simulation::TableModel>(shape, unit_);
    };
    worker_.emplace(transport_, setup_);
    worker_->begin();
  }
  static wire::Start plan_over(std::vector<std::int32_t> ranks) {
    wire::Start plan;
    wire::PipelinePlan target;
    for (std::size_t stage = 0; stage < ranks.size(); ++stage)
      target.layers.push_back({static_cast<std::int64_t>(stage), static_cast<std::int64_t>(stage) + 1});
    target.ranks = std::move(ranks);
    target.cells = 8;
    plan.pipelines = {target};
    return plan;
  }
  /// The same, with a draft model on one rank.
  static wire::Start plan_with_drafter(std::vector<std::int32_t> ranks, std::int32_t drafter) {
    wire::Start plan = plan_over(std::move(ranks));
    plan.draft.credit = 4;
    wire::PipelinePlan draft = plan_over({drafter}).pipelines.front();
    draft.model = 1;
    draft.sequences = plan.draft.credit + 1;
    plan.pipelines.push_back(draft);
    return plan;
  }
  void send(Tag tag, wire::Bytes bytes) { head_.send(1, tag, std::move(bytes)); }
  /// Advances until nothing happens any more; returns the worker's last message of this kind.
  std::optional<wire::Bytes> play_until(Tag tag) {
    for (int i = 0; i < 20; ++i) {
      worker_->step();
      unit_.tick();
    }
    std::optional<wire::Bytes> last;
    while (auto message = head_.receive()) {
      if (message->tag == tag) last = std::move(message->bytes);
    }
    return last;
  }
  std::string fault() {
    const auto bytes = play_until(Tag::kFailure);
    return bytes ? wire::decode_failure(*bytes).text : "none";
  }

  LocalNetwork network_;
  LocalTransport head_, transport_;
  SteppedUnit unit_;
  WorkerSetup setup_;
  std::optional<Worker> worker_;
};

using State = Worker::State;

TEST_F(WorkerTest, States_followTheHeadsMessages) {
  EXPECT_TRUE(play_until(Tag::kHello));
  EXPECT_EQ(worker_->state(), State::kAwaitingPlan);
  send(Tag::kStart, wire::encode(plan_over({0, 1})));
  worker_->step();
  EXPECT_EQ(worker_->state(), State::kLoading);
  const auto heartbeat = play_until(Tag::kHeartbeat);
  ASSERT_TRUE(heartbeat);
  EXPECT_EQ(wire::decode_heartbeat(*heartbeat).loaded_permille, 1000);
  EXPECT_EQ(worker_->state(), State::kServing);
  send(Tag::kAsk, {});
  EXPECT_TRUE(play_until(Tag::kReport));
  send(Tag::kStop, wire::encode_stop(9));
  const auto report = play_until(Tag::kReport);
  ASSERT_TRUE(report);
  EXPECT_EQ(wire::decode_report(*report).role, "stage");
  EXPECT_EQ(worker_->state(), State::kStopped);
  EXPECT_EQ(worker_->exit_code(), 9);
}

TEST_F(WorkerTest, StreamThatIsHereBeforeThePlan_isKept) {
  wire::Record run;
  run.run = 1;
  run.tokens = {3};
  run.placements = {{0, -1, {0, 1}}};
  run.logit_rows = {0};
  const std::vector<float> activations(simulation::TableModel::kWidth, 0.0f);
  send(Tag::kRecord, wire::encode(run));
  send(Tag::kActivations, wire::encode(wire::Rows{1, false, activations}));
  EXPECT_FALSE(play_until(Tag::kLogits));
  send(Tag::kStart, wire::encode(plan_over({0, 1})));
  EXPECT_TRUE(play_until(Tag::kLogits));
}

TEST_F(WorkerTest, PlansThatCannotBe_areFaults) {
  for (const auto& [ranks, text] : {std::pair{std::vector<std::int32_t>{0, 1, 2}, "names a rank that does not exist"},
                                    std::pair{std::vector<std::int32_t>{-1, 1}, "names a rank that does not exist"}}) {
    worker_.emplace(transport_, setup_);
    send(Tag::kStart, wire::encode(plan_over(ranks)));
    EXPECT_NE(fault().find(text), std::string::npos) << text;
    EXPECT_EQ(worker_->state(), State::kFailed);
  }
}

TEST_F(WorkerTest, RankWithoutAPart_waitsForTheEndAndCanBeSpared) {
  std::vector<bool> dispensable;
  setup_.dispensable = [&](bool is) { dispensable.push_back(is); };
  send(Tag::kStart, wire::encode(plan_over({0})));
  EXPECT_EQ(fault(), "none");
  EXPECT_EQ(worker_->state(), State::kServing);
  EXPECT_EQ(dispensable, std::vector<bool>{true});
  send(Tag::kStop, wire::encode_stop(4));
  const auto report = play_until(Tag::kReport);
  ASSERT_TRUE(report);
  EXPECT_EQ(wire::decode_report(*report).role, "idle");
  EXPECT_EQ(worker_->exit_code(), 4);
  EXPECT_EQ(dispensable, (std::vector<bool>{true, false}));
}

TEST_F(WorkerTest, MessageForARankWithoutAPart_isAFault) {
  send(Tag::kStart, wire::encode(plan_over({0})));
  EXPECT_EQ(fault(), "none");
  send(Tag::kRecord, wire::encode(wire::Record{}));
  EXPECT_NE(fault().find("does not take"), std::string::npos);
}

TEST_F(WorkerTest, Probe_isAnsweredAtOnceWithoutItsPadding) {
  send(Tag::kProbe, wire::encode(wire::Probe{7, std::vector<std::byte>(1000)}));
  const auto answer = play_until(Tag::kProbe);
  ASSERT_TRUE(answer);
  EXPECT_EQ(wire::decode_probe(*answer).number, 7u);
  EXPECT_TRUE(wire::decode_probe(*answer).padding.empty());
  send(Tag::kProbe, wire::Bytes(2));
  EXPECT_NE(fault(), "none");
}

TEST_F(WorkerTest, SecondPlan_isAFault) {
  send(Tag::kStart, wire::encode(plan_over({0, 1})));
  EXPECT_EQ(fault(), "none");
  send(Tag::kStart, wire::encode(plan_over({0, 1})));
  EXPECT_EQ(fault(), "a second plan came for the same job");
}

TEST_F(WorkerTest, Drafter_isDispensableOnceTheHeadServes_andAStageNever) {
  std::vector<bool> told;
  setup_.dispensable = [&](bool dispensable) { told.push_back(dispensable); };
  wire::Heartbeat loading, serving;
  loading.loaded_permille = 999, serving.loaded_permille = 1000;
  send(Tag::kStart, wire::encode(plan_with_drafter({0}, 1)));
  send(Tag::kHeartbeat, wire::encode(loading));
  EXPECT_EQ(fault(), "none");
  EXPECT_TRUE(told.empty());
  for (int i = 0; i < 2; ++i) send(Tag::kHeartbeat, wire::encode(serving));
  EXPECT_EQ(fault(), "none");
  EXPECT_EQ(told, std::vector<bool>{true});
  send(Tag::kNextJob, {});
  worker_->step();
  EXPECT_EQ(told, (std::vector<bool>{true, false})) << "the next job may need it";

  told.clear();
  worker_.emplace(transport_, setup_);
  send(Tag::kStart, wire::encode(plan_over({0, 1})));
  send(Tag::kHeartbeat, wire::encode(serving));
  EXPECT_EQ(fault(), "none");
  EXPECT_TRUE(told.empty());
}

TEST_F(WorkerTest, MessageForNobodyHere_orDamaged_isAFaultAndTheRankWaitsForTheEnd) {
  send(Tag::kStart, wire::encode(plan_over({0, 1})));
  EXPECT_EQ(fault(), "none");
  send(Tag::kGuesses, wire::encode(wire::Guesses{}));
  EXPECT_NE(fault().find("does not take"), std::string::npos);
  send(Tag::kNextJob, {});
  EXPECT_EQ(fault(), "none") << "it says it once";
  EXPECT_EQ(worker_->state(), State::kFailed);

  worker_.emplace(transport_, setup_);
  send(Tag::kStart, wire::Bytes(3));
  EXPECT_NE(fault(), "none");
  send(Tag::kStop, wire::encode_stop(3));
  EXPECT_TRUE(play_until(Tag::kReport));
  EXPECT_EQ(worker_->state(), State::kStopped);
}

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
  /// Milliseconds until the worker ends the job; -1: not within ten seconds. `lower_lives`: rank 1 does not hear the head either, and says
  /// so.
  int ends_job_after(bool lower_lives) {
    for (int ms = 50; ms <= 10000; ms += 50) {
      now_ns_ += 50'000'000;
      if (lower_lives) lower_.send(2, Tag::kHeartbeat, wire::encode(wire::Heartbeat{}));
      try {
        worker_->step();
      } catch (const RankLost& lost) {
        EXPECT_EQ(lost.rank, 0);
        return ms;
      }
    }
    return -1;
  }

  std::int64_t now_ns_ = 1;
  const Clock::Override clock_;
  LocalNetwork three_;
  LocalTransport silent_, lower_, own_;
};

TEST_F(SilentHead, RankThatHearsNoLowerOne_endsTheJobAfterTheDeadline) {
  plan(plan_over({0, 1, 2}));
  const int after = ends_job_after(false);
  EXPECT_GE(after, 1000);
  EXPECT_LE(after, 2000);
}

TEST_F(SilentHead, LowerRank_endsTheJobForAll_unlessItDiesToo) {
  plan(plan_over({0, 1, 2}));
  EXPECT_EQ(ends_job_after(true), -1);
  const int after = ends_job_after(false);
  EXPECT_GE(after, 500);
  EXPECT_LE(after, 3500);
}

TEST_F(SilentHead, LowerRankThatDrafts_isNotWaitedFor) {
  plan(plan_with_drafter({0, 2}, 1));
  const int after = ends_job_after(true);
  EXPECT_GE(after, 1000);
  EXPECT_LE(after, 2000);
}

/// The job does not need rank 2, which drafts, once the head has said so.
class SilentHeadOfADrafter : public SilentHead {
 protected:
  void serve(const wire::Start& job) {
    setup_.reaches_launcher = [] { return true; };
    setup_.head_unheard = [this] { unheard_ = true; };
    plan(job);
    wire::Heartbeat serving;
    serving.loaded_permille = 1000;
    silent_.send(2, Tag::kHeartbeat, wire::encode(serving));
    worker_->step();
  }

  bool unheard_ = false;
};

TEST_F(SilentHeadOfADrafter, HeadThatAloneHoldsTheTarget_isReported) {
  serve(plan_with_drafter({0}, 2));
  const int after = ends_job_after(false);
  EXPECT_GE(after, 1000);
  EXPECT_LE(after, 2000);
  EXPECT_FALSE(unheard_);
}

TEST_F(SilentHeadOfADrafter, LowerRankReportsIt_unlessItDiesToo) {
  serve(plan_with_drafter({0}, 2));
  EXPECT_EQ(ends_job_after(true), -1);
  EXPECT_GE(ends_job_after(false), 500);
}

TEST_F(SilentHeadOfADrafter, StageReportsIt) {
  serve(plan_with_drafter({0, 1}, 2));
  EXPECT_EQ(ends_job_after(false), -1);
  EXPECT_TRUE(unheard_);
}

TEST_F(SilentHeadOfADrafter, RankThatWasCutOffFromTheLauncher_doesNotEndTheJob) {
  serve(plan_with_drafter({0}, 2));
  setup_.reaches_launcher = [asked = 0]() mutable { return ++asked != 2; };
  EXPECT_EQ(ends_job_after(false), -1);
  EXPECT_TRUE(unheard_);
}

TEST_F(SilentHeadOfADrafter, RankThatWasLeftOut_doesNotEndTheJob) {
  serve(plan_with_drafter({0}, 2));
  silent_.send(2, Tag::kLeftOut, {});
  EXPECT_EQ(ends_job_after(false), -1);
  EXPECT_TRUE(unheard_);
}

TEST_F(WorkerTest, StageThatIsLeftOut_isAFault) {
  send(Tag::kStart, wire::encode(plan_over({0, 1})));
  send(Tag::kLeftOut, {});
  EXPECT_EQ(fault(), "the head has left out a rank that the job needs");
}

TEST_F(WorkerTest, Speed_isMeasuredWhenTheHeadAsks) {
  setup_.measure = [](const std::atomic<bool>&) { return wire::Measured{0.25, {1.5}}; };
  EXPECT_FALSE(play_until(Tag::kMeasured));
  send(Tag::kMeasure, {});
  std::optional<wire::Bytes> answer;
  while (!answer) answer = play_until(Tag::kMeasured);
  EXPECT_EQ(wire::decode_measured(*answer).ns_per_byte, 0.25);
  EXPECT_EQ(wire::decode_measured(*answer).width_multiples, std::vector<double>{1.5});
  send(Tag::kStart, wire::encode(plan_over({0, 1})));
  EXPECT_EQ(fault(), "none");
}

TEST_F(WorkerTest, SpeedThatCannotBeMeasured_isAFault) {
  send(Tag::kMeasure, {});
  EXPECT_NE(fault().find("a speed is asked for"), std::string::npos) << "nobody here knows how";
  setup_.measure = [](const std::atomic<bool>&) -> wire::Measured { throw ModelError("layer 3 is damaged"); };
  worker_.emplace(transport_, setup_);
  worker_->begin();
  send(Tag::kMeasure, {});
  std::string told = "none";
  while (told == "none") told = fault();
  EXPECT_EQ(told, "layer 3 is damaged");
}

TEST_F(WorkerTest, EndWhileItMeasures_endsTheMeasurement) {
  setup_.measure = [](const std::atomic<bool>& stop) {
    while (!stop) std::this_thread::yield();
    return wire::Measured{};
  };
  send(Tag::kMeasure, {});
  EXPECT_FALSE(play_until(Tag::kMeasured));
  send(Tag::kMeasure, {});
  EXPECT_NE(fault().find("while this rank has other work"), std::string::npos) << "twice; and it no longer measures";
}

TEST_F(WorkerTest, LayerToShare_isRefusedWhereThisRankIsNoMemberOrHasOtherWork) {
  send(Tag::kBenchmark, wire::encode(wire::BenchmarkRequest{{0, 2}, {1, 1}, 0, 1, 1}));
  EXPECT_NE(fault().find("a layer to share"), std::string::npos);
  worker_.emplace(transport_, setup_);
  worker_->begin();
  send(Tag::kStart, wire::encode(plan_over({0, 1})));
  send(Tag::kBenchmark, wire::encode(wire::BenchmarkRequest{{0, 1}, {1, 1}, 0, 1, 1}));
  EXPECT_NE(fault().find("while this rank has other work"), std::string::npos);
}

}  // namespace
}  // namespace yamata::test
