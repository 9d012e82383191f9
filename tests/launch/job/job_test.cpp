// A job that is started, serves several requests with waits between them, and is ended.
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>

#include "launch/program/input/interrupts.hpp"
#include "mpi/engine/engine.hpp"
#include "node/error.hpp"
#include "tests/launch/job/job_cluster.hpp"

namespace yamata::test {
namespace {

const ExpectedText kText{.prompt_tokens = 5, .generate = 16};

/// Keeps the text; fails at a token.
struct Recorder final : RequestObserver {
  void on_token(RequestId, std::int32_t) override {
    if (++tokens == fails_at) throw std::runtime_error("the client has gone");
  }
  void on_finished(Completion completion) override { text = completion.token_ids; }
  std::optional<std::vector<std::int32_t>> text;
  int tokens = 0, fails_at = -1;
};

Request request(std::vector<std::int32_t> prompt) {
  Request request;
  request.prompt = std::move(prompt);
  request.generate = kText.generate;
  return request;
}

/// The job's engine, as a command makes it.
std::unique_ptr<Engine> make_engine(Job& job, Head& head) {
  return std::make_unique<Engine>(head, GuessSources(job.transport()), decode_options(job.rank(), kText));
}

/// The text after this prompt in a job of its own, on one rank.
std::vector<std::int32_t> text_after(const std::vector<std::int32_t>& prompt) {
  JobCluster cluster(tales(), 1);
  Recorder recorder;
  cluster.job().open();
  cluster.job().start(kText);
  cluster.job().serve([&](Head& head) {
    const auto engine = make_engine(cluster.job(), head);
    engine->submit(request(prompt), recorder);
    engine->run();
  });
  cluster.job().end();
  return recorder.text.value();
}

/// Waits for so many looks.
bool wait(Job& job, int looks) {
  return job.wait_until([left = looks]() mutable { return left-- == 0; });
}

class JobTest : public testing::TestWithParam<int> {
 protected:
  void TearDown() override { g_interrupted = false; }
  static constexpr int kLooks = 50;
};

TEST_P(JobTest, FirstRequestFails_secondIsServed) {
  const std::vector<std::int32_t> prompt{1, 403, 17, 2500, 90};
  JobCluster cluster(tales(), GetParam());
  Job& job = cluster.job();
  job.open();
  job.start(kText);
  ASSERT_TRUE(wait(job, kLooks));
  std::unique_ptr<Engine> engine;
  Recorder failing, served;
  failing.fails_at = 4;
  EXPECT_THROW(job.serve([&](Head& head) {
    engine = make_engine(job, head);
    engine->submit(request({1, 7, 8}), failing);
    engine->run();
  }),
               std::runtime_error);
  EXPECT_FALSE(failing.text);
  ASSERT_TRUE(wait(job, kLooks));
  EXPECT_TRUE(job.serve([&](Head&) {
    engine->submit(request(prompt), served);
    engine->run();
  }));
  EXPECT_EQ(served.text, text_after(prompt));
  engine.reset();
  const std::vector<wire::Report> reports = job.end();
  ASSERT_EQ(reports.size(), static_cast<std::size_t>(GetParam()));
  for (const wire::Report& report : reports) EXPECT_NE(report.role, "lost");
  EXPECT_FALSE(job.interrupted());
}

TEST_P(JobTest, InterruptWhileItWaits_endsIt) {
  JobCluster cluster(tales(), GetParam());
  Job& job = cluster.job();
  job.open();
  job.start(kText);
  int looks = 0;
  EXPECT_FALSE(job.wait_until([&] {
    g_interrupted = ++looks > kLooks;
    return false;
  }));
  EXPECT_TRUE(job.interrupted());
  EXPECT_EQ(job.end(Job::Then::kNextJob).size(), static_cast<std::size_t>(GetParam()));
}

TEST_P(JobTest, NextJob_keepsTheRanks) {
  JobCluster cluster(tales(), GetParam());
  for (const Job::Then then : {Job::Then::kNextJob, Job::Then::kEnd}) {
    Job next(tales(), cluster.job().transport(), {0, GetParam(), "host", 0, GetParam()});
    next.open();
    next.start(kText);
    EXPECT_EQ(next.end(then).empty(), then == Job::Then::kNextJob);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, JobTest, testing::Values(1, 3));

TEST(WaitingJob, RankThatFails_isNoticed) {
  JobCluster cluster(tales(), 2);
  cluster.job().open();
  cluster.job().start(kText);
  cluster.launcher_dies();
  EXPECT_THROW(cluster.job().wait_until([] { return false; }), Error);
}

}  // namespace
}  // namespace yamata::test
