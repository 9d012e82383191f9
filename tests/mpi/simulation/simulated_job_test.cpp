// Head, workers and engine together, in one thread: requests one after another, ranks that are lost, and the end.
#include "tests/mpi/simulation/simulated_job.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "mpi/cluster/rank_lost.hpp"

namespace yamata::test {
namespace {

/// Records what it is told.
struct Recorder final : RequestObserver {
  void on_token(RequestId request, std::int32_t token) override {
    of = request;
    tokens.push_back(token);
  }
  void on_finished(Completion c) override { completion = std::move(c); }
  bool finished() const { return completion.has_value(); }

  RequestId of = 0;
  std::vector<std::int32_t> tokens;
  std::optional<Completion> completion;
};

Request request_of(std::vector<std::int32_t> prompt, std::int32_t tokens, float temperature = 0) {
  Request request;
  request.prompt = std::move(prompt);
  request.generate = tokens;
  request.sampling.temperature = temperature;
  return request;
}

/// Shapes with different ranks, drafters and strategies.
std::vector<JobShape> shapes(int stages, std::uint64_t seed) {
  return {{.seed = seed, .stages = stages},
          {.seed = seed, .stages = stages, .drafters = {1}, .strategy = Strategy::kPipeInfer},
          {.seed = seed, .stages = stages, .drafters = {0}, .strategy = Strategy::kPipeInfer},
          {.seed = seed, .stages = stages, .drafters = {2, 1}, .strategy = Strategy::kPipeInfer, .lookup = true},
          {.seed = seed, .stages = stages, .drafters = {1}, .strategy = Strategy::kSpeculative}};
}

std::string name_of(const JobShape& shape) {
  std::string name = "seed " + std::to_string(shape.seed) + ", " + std::to_string(shape.stages) + " stages, drafters on";
  for (const int ranks : shape.drafters) name += " " + std::to_string(ranks);
  return name;
}

/// Runs every shape on 1 to 4 stages, with several seeds.
template <class Play>
void play_all(Play play) {
  for (int stages = 1; stages <= 4; ++stages) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      for (const JobShape& shape : shapes(stages, seed)) {
        SCOPED_TRACE(name_of(shape));
        SimulatedJob job(shape);
        job.start();
        play(job, shape);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

/// The result of a request alone in a job.
std::vector<std::int32_t> single(const Request& request, const JobShape& shape) {
  SimulatedJob job(shape);
  job.start();
  Recorder told;
  job.engine().submit(request, told);
  job.until([&] { return told.finished(); });
  return told.completion->token_ids;
}

TEST(SimulatedJob, RequestsOneAfterAnother_giveTheTextsOfSingleJobs) {
  play_all([](SimulatedJob& job, const JobShape& shape) {
    const std::vector<Request> requests{request_of(job.random_prompt(), 12), request_of(job.random_prompt(), 1),
                                        request_of(job.random_prompt(), 20, 0.8f)};
    std::vector<Recorder> told(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(job.engine().submit(requests[i], told[i]), i + 1);
    job.until([&] { return job.engine().idle(); });
    for (std::size_t i = 0; i < requests.size(); ++i) {
      ASSERT_TRUE(told[i].finished());
      const Completion& c = *told[i].completion;
      EXPECT_EQ(c.request, i + 1);
      EXPECT_EQ(c.finish, FinishReason::kLength);
      EXPECT_EQ(c.token_ids, told[i].tokens);
      EXPECT_EQ(c.token_ids, job.text_after(requests[i].prompt, requests[i].generate, requests[i].sampling)) << "request " << i + 1;
      EXPECT_EQ(c.token_times_s.size(), c.token_ids.size());
    }
    EXPECT_EQ(told[2].tokens, single(requests[2], shape));
  });
}

TEST(SimulatedJob, RequestAfterAnInterruptedOne_isNotDisturbed) {
  play_all([](SimulatedJob& job, const JobShape&) {
    const Request first = request_of(job.random_prompt(), 40), waiting = request_of(job.random_prompt(), 5),
                  last = request_of(job.random_prompt(), 16);
    Recorder told[3];
    const RequestId id = job.engine().submit(first, told[0]);
    const RequestId waits = job.engine().submit(waiting, told[1]);
    job.until([&] { return told[0].tokens.size() >= 4; });
    job.engine().cancel(waits);
    job.engine().cancel(id);
    ASSERT_TRUE(told[0].finished() && told[1].finished());
    EXPECT_EQ(told[0].completion->finish, FinishReason::kInterrupted);
    EXPECT_TRUE(told[1].tokens.empty());
    EXPECT_EQ(told[0].tokens, job.text_after(first.prompt, static_cast<std::int32_t>(told[0].tokens.size())));
    EXPECT_TRUE(job.engine().idle());
    job.engine().submit(last, told[2]);
    job.until([&] { return told[2].finished(); });
    EXPECT_EQ(told[2].completion->token_ids, job.text_after(last.prompt, 16));
  });
}

TEST(SimulatedJob, PromptThatIsBeingRead_canBeInterruptedToo) {
  int told_to_cancel = 0;
  play_all([&](SimulatedJob& job, const JobShape&) {
    const Request first = request_of(std::vector<std::int32_t>(30, 3), 10), last = request_of(job.random_prompt(), 10);
    Recorder told[2];
    const RequestId id = job.engine().submit(first, told[0]);
    for (int i = 0; i < 200; ++i) job.act();
    job.engine().cancel(id);
    job.engine().submit(last, told[1]);
    job.until([&] { return told[1].finished(); });
    EXPECT_EQ(told[1].completion->token_ids, job.text_after(last.prompt, 10));
    if (job.decode.strategy != Strategy::kIterative) return;  // all other strategies also cancel guesses
    job.head().order_stop(0);
    job.until([&] { return job.head().state() == Head::State::kStopped; });
    for (const wire::Report& report : job.head().take_reports()) {
      if (report.role != "head")
        told_to_cancel += static_cast<int>(
            std::count_if(report.events.begin(), report.events.end(), [](const auto& e) { return e.kind == TraceEvent::Kind::kCancel; }));
    }
  });
  EXPECT_GT(told_to_cancel, 20);
}

TEST(SimulatedJob, Interruption_endsTheRequestAtHandAndLeavesTheOthers) {
  SimulatedJob job({.stages = 1});
  job.start();
  Recorder told[2];
  job.engine().submit(request_of({1, 2}, 30), told[0]);
  job.engine().submit(request_of({3}, 5), told[1]);
  job.until([&] { return told[0].tokens.size() == 2; });
  job.interrupted = true;
  EXPECT_THROW(job.engine().run(), Interrupted);
  ASSERT_TRUE(told[0].finished());
  EXPECT_EQ(told[0].completion->finish, FinishReason::kInterrupted);
  EXPECT_FALSE(told[1].finished());
  job.interrupted = false;
  job.until([&] { return job.engine().idle(); });
  EXPECT_EQ(told[1].completion->token_ids, job.text_after({3}, 5));
}

TEST(SimulatedJob, TokenThatEndsTheText_andFullContext_areTold) {
  SimulatedJob job({.stages = 2});
  job.start();
  const auto text = job.text_after({5}, 40);
  Request stops = request_of({5}, 40);
  stops.ends = {text[6]};
  Recorder told[2];
  job.engine().submit(stops, told[0]);
  job.engine().submit(request_of(std::vector<std::int32_t>(60, 2), 40), told[1]);
  EXPECT_THROW(job.engine().submit(request_of(std::vector<std::int32_t>(65, 2), 1), told[1]), UsageError);
  EXPECT_THROW(job.engine().submit(request_of({}, 1), told[1]), UsageError);
  job.until([&] { return job.engine().idle(); });
  EXPECT_EQ(told[0].completion->finish, FinishReason::kStop);
  EXPECT_EQ(told[0].completion->token_ids.back(), text[6]);
  EXPECT_EQ(told[0].completion->token_ids.size(), std::find(text.begin(), text.end(), text[6]) - text.begin() + 1u);
  EXPECT_EQ(told[1].completion->finish, FinishReason::kContext);
  EXPECT_EQ(told[1].completion->token_ids.size(), 5u);
}

/// Ends the head's job and those of all other ranks.
void stop_and_part(SimulatedJob& job, bool together) {
  job.head().order_stop(7);
  job.until([&] { return job.head().state() == Head::State::kStopped; });
  for (const auto& [rank, all] : job.disconnect()) EXPECT_EQ(all, together) << "rank " << rank;
}

TEST(SimulatedJob, End_isToldToAllAndAllPartTogether) {
  play_all([](SimulatedJob& job, const JobShape&) {
    Recorder told;
    job.engine().submit(request_of({1}, 3), told);
    job.until([&] { return told.finished(); });
    stop_and_part(job, true);
    for (int r = 1; r < job.size(); ++r) EXPECT_EQ(job.worker(r).exit_code(), 7) << r;
    const auto reports = job.head().take_reports();
    ASSERT_EQ(static_cast<int>(reports.size()), job.size());
    for (int r = 1; r < job.size(); ++r) EXPECT_EQ(reports[static_cast<std::size_t>(r)].host, "host" + std::to_string(r));
  });
}

struct Guessing {
  Strategy strategy;
  std::string policy = "best-first";
  int sequences = 0;
};

class LostDrafter : public testing::TestWithParam<Guessing> {};

TEST_P(LostDrafter, Text_goesOnAndSoDoTheRequestsAfterIt) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const bool fails : {false, true}) {
      const auto [strategy, policy, sequences] = GetParam();
      SimulatedJob job({.seed = seed, .stages = 2, .drafters = {2, 1}, .strategy = strategy, .policy = policy, .sequences = sequences});
      job.start();
      const Request first = request_of(job.random_prompt(), 50), second = request_of(job.random_prompt(), 20);
      Recorder told[2];
      job.engine().submit(first, told[0]);
      job.until([&] { return told[0].tokens.size() >= 3; });
      const int rank = job.drafter_rank(0);
      fails ? job.break_rank(rank + 1) : job.stop_rank(rank + 1);  // this is not the drafter's first rank
      job.until([&] { return !job.warnings.empty() && told[0].finished(); });
      job.engine().submit(second, told[1]);
      job.until([&] { return told[1].finished(); });
      EXPECT_EQ(told[0].tokens, job.text_after(first.prompt, 50));
      EXPECT_EQ(told[1].tokens, job.text_after(second.prompt, 20));
      ASSERT_EQ(job.warnings.size(), 1u);
      EXPECT_EQ(job.warnings[0].find("the text goes on without the drafter on rank " + std::to_string(rank) + ":"), 0u) << job.warnings[0];
      EXPECT_NE(job.warnings[0].find(fails ? "a second plan came" : "has been silent"), std::string::npos) << job.warnings[0];
      stop_and_part(job, false);
      EXPECT_EQ(job.head().take_reports()[static_cast<std::size_t>(job.drafter_rank(1))].role, "drafter");
    }
  }
}

// With the last two, the text waits for the draft.
INSTANTIATE_TEST_SUITE_P(Strategies, LostDrafter,
                         testing::Values(Guessing{Strategy::kPipeInfer}, Guessing{Strategy::kSpeculative},
                                         Guessing{Strategy::kSpeculative, "chain"}, Guessing{Strategy::kPipeInfer, "multi-sequence", 5}));

TEST(SimulatedJob, IdleRank_takesNoPartAndMayBeLostAtAnyTime) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    for (const int moment : {0, 1, 2}) {  // 0: it stays; 1: it is silent; 2: it fails
      SimulatedJob job({.seed = seed, .stages = 2, .drafters = {1}, .idle = 2, .probes_links = true, .strategy = Strategy::kPipeInfer});
      job.start();
      EXPECT_EQ(job.head().links().size(), 5u);
      const Request request = request_of(job.random_prompt(), 50);
      Recorder told;
      job.engine().submit(request, told);
      job.until([&] { return told.tokens.size() >= 3; });
      if (moment == 1) job.stop_rank(3);
      if (moment == 2) job.break_rank(3);
      job.until([&] { return told.finished() && (moment == 0 || !job.warnings.empty()); });
      EXPECT_EQ(told.tokens, job.text_after(request.prompt, 50));
      ASSERT_EQ(job.warnings.size(), moment == 0 ? 0u : 1u);
      for (const std::string& warning : job.warnings)
        EXPECT_EQ(warning.find("the text goes on without rank 3, which has no part in it: "), 0u) << warning;
      stop_and_part(job, moment == 0);
      const auto reports = job.head().take_reports();
      EXPECT_EQ(reports[4].role, "idle");
      const bool came = reports[3].role != "lost";  // the report of a failed rank may arrive, but is not waited for
      EXPECT_EQ(reports[3].role, moment == 1 || (moment == 2 && !came) ? "lost" : "idle");
      EXPECT_EQ(reports[2].role, "drafter");
    }
  }
}

/// The loss that ends the job, thrown by the rank that detects it.
std::optional<RankLost> loss(SimulatedJob& job) {
  try {
    job.until([] { return false; });
  } catch (const RankLost& lost) {
    return lost;
  }
  return std::nullopt;
}

TEST(SimulatedJob, LostStage_isNamed) {
  for (int stages = 2; stages <= 4; ++stages) {
    for (int rank = 1; rank < stages; ++rank) {
      SimulatedJob job({.stages = stages, .drafters = {1}, .strategy = Strategy::kPipeInfer});
      job.start();
      Recorder told;
      job.engine().submit(request_of({1, 2, 3}, 60), told);
      job.until([&] { return told.tokens.size() >= 2; });
      job.stop_rank(rank);
      const auto lost = loss(job);
      ASSERT_TRUE(lost);
      EXPECT_EQ(lost->rank, rank);
      EXPECT_NE(std::string(lost->what()).find("rank " + std::to_string(rank) + " (host" + std::to_string(rank) + ") has been silent"),
                std::string::npos)
          << lost->what();
    }
  }
}

TEST(SimulatedJob, FaultOfAStage_isThrownByTheHead) {
  SimulatedJob job({.stages = 3});
  job.start();
  job.break_rank(2);
  try {
    job.until([] { return false; });
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kCluster);
    EXPECT_EQ(std::string(e.what()).find("rank 2 (host2): a second plan came"), 0u) << e.what();
  }
  EXPECT_EQ(job.worker(2).state(), Worker::State::kFailed);
}

TEST(SimulatedJob, LauncherThatIsGone_endsTheJobWhateverTheRankDoes) {
  for (const int rank : {1, 2, 3}) {  // a stage, the drafter, an idle rank
    SimulatedJob job({.stages = 2, .drafters = {1}, .idle = 1, .strategy = Strategy::kPipeInfer});
    job.start();
    job.end_launcher(rank);
    try {
      job.until([&] { return !job.warnings.empty(); });
      ADD_FAILURE() << "the job goes on without rank " << rank;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kCluster);
      EXPECT_EQ(e.what(), fmt::format("rank {0} (host{0}): the launcher's daemon on this machine has died, which ends the job", rank));
    }
  }
}

TEST(SimulatedJob, SilentHead_isFoundByTheStages) {
  SimulatedJob job({.stages = 3});
  job.start();
  job.stop_rank(0);
  const auto lost = loss(job);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 0);
}

TEST(SimulatedJob, SilentHeadThatAloneHoldsTheTarget_isFoundByTheOthers) {
  for (const int idle : {0, 2}) {
    SimulatedJob job({.stages = 1, .drafters = {1, 2}, .idle = idle, .strategy = Strategy::kPipeInfer});
    job.start();
    Recorder told;
    job.engine().submit(request_of({1, 2, 3}, 60), told);
    job.until([&] { return told.tokens.size() >= 2; });
    job.stop_rank(0);
    EXPECT_EQ(loss(job).value().rank, 0);
  }
}

TEST(SimulatedJob, DrafterThatWasGivenUpAndContinues_leavesTheJobAlone) {
  SimulatedJob job({.stages = 1, .drafters = {1}, .strategy = Strategy::kPipeInfer});
  job.start();
  job.stop_rank(1);
  job.until([&] { return !job.warnings.empty(); });
  job.continue_rank(1);
  for (int i = 0; i < 10; ++i) {
    Recorder told;
    job.engine().submit(request_of(job.random_prompt(), 50), told);
    job.until([&] { return told.finished(); });
  }
}

TEST(SimulatedJob, RankThatIsLostBeforeTheEnd_isNamedByTheHeadAndWaitedForByNobody) {
  SimulatedJob job({.stages = 3});
  job.start();
  job.stop_rank(2);
  job.head().order_stop(0);
  const auto lost = loss(job);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 2);
  EXPECT_NE(std::string(lost->what()).find("did not answer the request to stop"), std::string::npos) << lost->what();
}

TEST(SimulatedJob, NextJob_isPlayedByTheSameRanks) {
  SimulatedJob job({.stages = 3});
  for (int i = 0; i < 3; ++i) {
    job.start();
    Recorder told;
    const Request request = request_of(job.random_prompt(), 10);
    job.engine().submit(request, told);
    job.until([&] { return told.finished() && job.head().target().outstanding() == 0; });
    EXPECT_EQ(told.tokens, job.text_after(request.prompt, 10));
    job.head().finish();
    job.until([&] { return job.worker(1).ended() && job.worker(2).ended(); });
    EXPECT_EQ(job.worker(1).state(), Worker::State::kJobOver);
  }
}

}  // namespace
}  // namespace yamata::test
