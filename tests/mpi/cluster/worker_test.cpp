// A single worker, message by message: its states, and invalid messages.
#include "mpi/cluster/worker.hpp"

#include <optional>
#include <system_error>
#include <thread>

#include "node/error.hpp"
#include "tests/mpi/cluster/worker_fixture.hpp"

namespace yamata::test {
namespace {

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

wire::Record run_of(std::uint64_t id) {
  wire::Record run;
  run.run = id;
  run.tokens = {3};
  run.placements = {{static_cast<std::int32_t>(id) - 1, -1, {0, 1}}};
  run.logit_rows = {0};
  return run;
}

TEST_F(WorkerTest, StreamThatIsHereBeforeThePlan_isKept) {
  const std::vector<float> activations(simulation::TableModel::kWidth, 0.0f);
  send(Tag::kRecord, wire::encode(run_of(1)));
  send(Tag::kActivations, wire::encode(wire::Rows{1, false, activations}));
  EXPECT_FALSE(play_until(Tag::kLogits));
  send(Tag::kStart, wire::encode(plan_over({0, 1})));
  EXPECT_TRUE(play_until(Tag::kLogits));
}

/// Stages pass cancellations on to each other, so one may come when the head has ended its job.
TEST_F(WorkerTest, CancellationOfTheJobBefore_isIgnored) {
  for (const bool early : {true, false}) {
    worker_.emplace(transport_, setup_);
    wire::Start plan = plan_over({0, 1});
    plan.job = 6;
    for (const std::int64_t job : {5, 6}) {
      const wire::Bytes cancel = wire::encode(wire::Cancel{{static_cast<std::uint64_t>(job - 4)}, CancelRoute::kBackward, job});
      if (!early && job == 5) send(Tag::kStart, wire::encode(plan));
      send(Tag::kCancel, cancel);
    }
    if (early) send(Tag::kStart, wire::encode(plan));
    for (const std::uint64_t id : {1u, 2u}) {
      send(Tag::kRecord, wire::encode(run_of(id)));
      send(Tag::kActivations, wire::encode(wire::Rows{id, false, std::vector<float>(simulation::TableModel::kWidth, 0.0f)}));
      const auto logits = play_until(Tag::kLogits);
      ASSERT_TRUE(logits);
      EXPECT_EQ(wire::decode_rows(*logits).skipped, id == 2) << id << (early ? ", before the plan" : ", after the plan");
    }
  }
  worker_.emplace(transport_, setup_);
  send(Tag::kStart, wire::encode(plan_over({0})));
  send(Tag::kCancel, wire::encode(wire::Cancel{{1}, CancelRoute::kBackward, 5}));
  EXPECT_EQ(fault(), "none") << "it has no part in this job";
}

/// The time in which a rank makes its stages is not taken for the time of the message.
TEST_F(WorkerTest, ClockOfTheHead_isThatOfTheMomentTheMessageIsHere) {
  constexpr std::int64_t kHead_us = 1'000'000'000'000, kStage_us = 1000;
  std::int64_t made_us = 0;
  setup_.make_stage = [&, make = setup_.make_stage](const wire::PipelinePlan& plan, std::size_t stage, CacheTypes types,
                                                    const GroupMember& group) {
    made_us = Trace::now_us();
    while (Trace::now_us() < made_us + kStage_us) continue;
    return make(plan, stage, types, group);
  };
  worker_.emplace(transport_, setup_);
  wire::Start plan = plan_over({0, 1});
  plan.trace = true, plan.head_host = "host0", plan.head_time_us = kHead_us;
  send(Tag::kStart, wire::encode(plan));
  play_until(Tag::kHeartbeat);
  const std::int64_t before_us = Trace::now_us();
  send(Tag::kCancel, wire::encode(wire::Cancel{{1}, CancelRoute::kDirect, plan.job}));
  send(Tag::kAsk, {});
  const auto report = play_until(Tag::kReport);
  ASSERT_TRUE(report);
  const std::vector<TraceEvent> events = wire::decode_report(*report).events;
  ASSERT_EQ(events.size(), 1u);
  EXPECT_GE(events[0].begin_us, kHead_us + before_us - made_us);
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
  loading.loaded_permille = 1000, serving.can_lose_drafters = true;
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

TEST_F(WorkerTest, StageThatIsLeftOut_isAFault) {
  send(Tag::kStart, wire::encode(plan_over({0, 1})));
  send(Tag::kLeftOut, {});
  EXPECT_EQ(fault(), "the head has left out a rank that the job needs");
}

TEST_F(WorkerTest, DrafterThatIsLeftOutBeforeItHeardThatTheHeadServes_goesOn) {
  std::vector<bool> told;
  int unheard = 0;
  setup_.dispensable = [&](bool dispensable) { told.push_back(dispensable); };
  setup_.head_unheard = [&] { ++unheard; };
  send(Tag::kStart, wire::encode(plan_with_drafter({0}, 1)));
  EXPECT_EQ(fault(), "none");
  send(Tag::kLeftOut, {});
  EXPECT_EQ(fault(), "none");
  EXPECT_EQ(worker_->state(), State::kServing);
  EXPECT_EQ(told, std::vector<bool>{true});
  EXPECT_EQ(unheard, 1);
}

TEST_F(WorkerTest, RankThatIsLeftOutAfterTheJob_isNotDisturbedInTheNext) {
  int unheard = 0;
  setup_.head_unheard = [&] { ++unheard; };
  send(Tag::kStart, wire::encode(plan_with_drafter({0}, 1)));
  EXPECT_EQ(fault(), "none");
  send(Tag::kNextJob, {});
  send(Tag::kLeftOut, {});
  worker_->step();
  EXPECT_EQ(worker_->state(), State::kJobOver);
  worker_.emplace(transport_, setup_);
  worker_->begin();
  EXPECT_EQ(fault(), "none");
  send(Tag::kStart, wire::encode(plan_over({0, 1})));
  EXPECT_EQ(fault(), "none");
  EXPECT_EQ(worker_->state(), State::kServing);
  EXPECT_EQ(unheard, 0);
}

TEST_F(WorkerTest, Speed_isMeasuredWhenTheHeadAsks) {
  setup_.measure = [](const std::atomic<bool>&) { return wire::Measured{0.25, {1.5}}; };
  EXPECT_FALSE(play_until(Tag::kMeasured));
  send(Tag::kMeasure, {});
  const auto answer = sooner_or_later([this] { return play_until(Tag::kMeasured); });
  ASSERT_TRUE(answer) << "no speed came";
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
  EXPECT_EQ(text_of(sooner_or_later([this] { return play_until(Tag::kFailure); })), "layer 3 is damaged");
}

TEST_F(WorkerTest, ThreadThatTheSystemRefuses_isAFaultWithARemedy) {
  setup_.open = []() -> wire::Hello { throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)); };
  worker_.emplace(transport_, setup_);
  worker_->begin();
  const auto failure = play_until(Tag::kFailure);
  ASSERT_TRUE(failure);
  EXPECT_EQ(wire::decode_failure(*failure).code, static_cast<int>(ExitCode::kModel));
  EXPECT_NE(text_of(failure).find("ulimit -u"), std::string::npos) << text_of(failure);
}

TEST_F(WorkerTest, EndWhileItMeasures_endsTheMeasurement) {
  setup_.measure = [](const std::atomic<bool>& stop) {
    EXPECT_TRUE(sooner_or_later([&] {
      std::this_thread::yield();
      return stop.load();
    })) << "it was not stopped";
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
