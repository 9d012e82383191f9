// Damaged messages to the ranks of a job: the head and the workers end with a regular error, or the message has no effect.
#include <gtest/gtest.h>

#include "mpi/cluster/head.hpp"
#include "mpi/cluster/worker.hpp"
#include "mpi/transport/local_transport.hpp"
#include "node/error.hpp"
#include "tests/mpi/instant_unit.hpp"
#include "tests/mpi/protocol/damage.hpp"
#include "tests/mpi/protocol/messages.hpp"

namespace yamata::test {
namespace {

constexpr std::size_t kShare = 20;  // part of all rounds: each of these simulates a whole job
constexpr int kMaxSteps = 2000;     // more steps mean that it hangs

/// Stages of table models that compute at once, with a cache of kSampleCells cells, whatever the plan says.
StageFactory factory_on(InstantUnit& unit) {
  return [&unit](const wire::PipelinePlan& plan, std::size_t stage, CacheTypes, const GroupMember&) {
    simulation::TableShape shape;
    shape.stage = static_cast<std::int32_t>(stage), shape.stages = static_cast<std::int32_t>(plan.ranks.size());
    shape.cells = std::min(plan.cells, 2 * kSampleCells), shape.sequences = plan.sequences, shape.vocabulary = kSampleVocabulary;
    shape.logits = [](std::uint64_t prefix, std::span<float> logits) {
      for (std::size_t v = 0; v < logits.size(); ++v) logits[v] = static_cast<float>((prefix >> v) % 7);
    };
    return std::make_unique<simulation::TableModel>(shape, unit);
  };
}

/// The target on ranks 0 and 1, a draft on ranks 2 and 3.
wire::Start plan_of_job() {
  wire::Start plan = sample_plan();
  plan.cache_types = {};
  plan.pipelines.pop_back();
  return plan;
}

class DamagedJobTest : public testing::Test {
 protected:
  struct Sent {
    int from;
    Tag tag;
    wire::Bytes bytes;
  };
  /// Plays rounds with one damaged message each, and one round without.
  template <class Play>
  void play_rounds(const std::vector<Sent>& whole, Play play) {
    EXPECT_TRUE(play(whole, nullptr)) << "all is well";
    std::size_t refused = 0;
    for (std::size_t round = 0; round < damage_rounds() / kShare; ++round) {
      std::vector<Sent> messages = whole;
      Sent& damaged = messages[random_() % messages.size()];
      damaged.bytes = damage(damaged.bytes, messages[random_() % messages.size()].bytes, random_);
      try {
        refused += !play(messages, &damaged);
      } catch (const std::exception& e) {
        FAIL() << "round " << round << ", tag " << static_cast<int>(damaged.tag) << ": " << e.what();
      }
      if (HasFatalFailure()) FAIL() << "round " << round << ", tag " << static_cast<int>(damaged.tag);
    }
    EXPECT_GT(refused, 0u);
  }
  template <class Step>
  static void run(Step step) {
    for (int i = 0; step(); ++i) ASSERT_LT(i, kMaxSteps) << "it does not come to an end";
  }

  std::mt19937_64 random_{9};
};

/// The messages to a rank other than the head: the stream of the model that it has a stage of, or the text to draft from.
std::vector<wire::Bytes> stream_of(bool records) {
  std::vector<wire::Bytes> all;
  for (const wire::Record& record : sample_records()) {
    if (!record.has_run()) continue;
    const std::vector<float> rows(record.tokens.size() * kSampleWidth, 3.0f), features(record.features_below(1) * kSampleWidth, 2.0f);
    all.push_back(records ? encode(record) : encode(wire::Rows{.run = record.run, .values = rows, .features = features}));
  }
  return all;
}

/// Sends messages to a worker; returns whether it reported no error. Throws if an error is not a ClusterError.
bool play_worker(int rank, const auto& messages, auto run) {
  LocalNetwork network(kSampleRanks);
  LocalTransport transport(network, rank), head(network, 0);
  InstantUnit unit;
  WorkerSetup setup;
  setup.host = "host";
  setup.open = [] { return sample_hello(); };
  setup.make_stage = factory_on(unit);
  Worker worker(transport, setup);
  worker.begin();
  try {
    for (const auto& message : messages) {
      LocalTransport(network, message.from).send(rank, message.tag, message.bytes);
      run([&] { return !worker.ended() && worker.step(); });
    }
  } catch (const ClusterError&) {  // run_worker ends the job with it
    return false;
  }
  while (const auto answer = head.receive()) {
    if (answer->tag != Tag::kFailure) continue;
    const wire::Failure failure = wire::decode_failure(answer->bytes);
    const bool known = failure.text.find("rank") != std::string::npos || failure.text.find("plan") != std::string::npos;
    if (failure.code != static_cast<int>(ExitCode::kCluster) || !known) throw std::runtime_error(failure.text);
    return false;
  }
  return true;
}

TEST_F(DamagedJobTest, Worker_reportsAFaultOrGoesOn) {
  for (int rank = 1; rank < kSampleRanks; ++rank) {
    std::vector<Sent> messages{{0, Tag::kHeartbeat, encode(wire::Heartbeat{})}, {0, Tag::kStart, encode(plan_of_job())}};
    const bool target = rank == 1;
    if (rank == 2) {
      messages.push_back({0, Tag::kCommit, encode(wire::Commit{1, 1, 0, {7, 3}, 4, 0.25f, false})});
      messages.push_back({0, Tag::kCommit, encode(wire::Commit{1, 2, 2, {4}, 0, 0.0f, true})});
    } else {
      messages.push_back({rank - 1, target ? Tag::kRecord : Tag::kDraftRecord, stream_of(true)[0]});
      messages.push_back({rank - 1, target ? Tag::kActivations : Tag::kDraftActivations, stream_of(false)[0]});
      messages.push_back({rank - 1, target ? Tag::kCancel : Tag::kDraftCancel,
                          wire::encode(wire::Cancel{{2}, CancelRoute::kBackward, plan_of_job().job})});
      messages.push_back({rank - 1, target ? Tag::kRecord : Tag::kDraftRecord, stream_of(true)[1]});
      messages.push_back({rank - 1, target ? Tag::kActivations : Tag::kDraftActivations, stream_of(false)[1]});
    }
    messages.push_back({0, Tag::kAsk, {}});
    messages.push_back({0, Tag::kStop, wire::encode_stop(0)});
    play_rounds(messages, [&](const auto& sent, const Sent*) { return play_worker(rank, sent, [](auto step) { run(step); }); });
  }
}

TEST_F(DamagedJobTest, Head_endsInAFaultOrGoesOn) {
  std::vector<Sent> messages;
  for (int rank = 1; rank < kSampleRanks; ++rank) messages.push_back({rank, Tag::kHello, encode(sample_hello())});
  for (int rank = 1; rank < kSampleRanks; ++rank)
    messages.push_back({rank, Tag::kHeartbeat, encode(wire::Heartbeat{1, wire::Activity::kIdle, 1000})});
  messages.push_back({2, Tag::kGuesses, encode(sample_guesses())});
  messages.push_back({1, Tag::kReport, encode(sample_report())});
  messages.push_back({3, Tag::kFailure, encode(wire::Failure{3, "its disk is full"})});
  play_rounds(messages, [](const auto& sent, const Sent* damaged) {
    LocalNetwork network(kSampleRanks);
    LocalTransport transport(network, 0);
    InstantUnit unit;
    Head head(transport, {});
    head.begin(
        sample_hello(), {42}, [](const auto&) { return plan_of_job(); }, factory_on(unit));
    try {
      for (const Sent& message : sent) {
        LocalTransport(network, message.from).send(0, message.tag, message.bytes);
        run([&] { return head.step(); });
      }
    } catch (const Error& e) {  // other exit codes: different files, or the code that a rank gave for its own error
      const bool free = damaged && (damaged->tag == Tag::kHello || damaged->tag == Tag::kFailure);
      if (e.code() != ExitCode::kCluster && !free) throw;
      return false;
    }
    return true;
  });
}

}  // namespace
}  // namespace yamata::test
