// Ranks fetch what they lack from a server, message by message; damaged messages give no wrong weights.
#include "mpi/cluster/weights_fetch.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "mpi/transport/local_transport.hpp"
#include "node/error.hpp"
#include "tests/fetch/source.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/thorough.hpp"

namespace yamata::test {
namespace {

using fetch::FetchedModel;

/// One model, as rank 0 has it.
struct TestSource final : WeightsSource {
  const fetch::ModelShape& shape(std::int32_t model) override {
    if (model != 0) throw ClusterError("no such model");
    return source.shape();
  }
  std::span<const std::byte> bytes(std::int32_t, std::size_t part) override { return source.bytes(part); }
  Source source{2};
};

/// A rank that needs some chunks of the model.
class FetchingRank {
 public:
  FetchingRank(LocalNetwork& network, int rank, std::string folder) : transport_(network, rank), folder_(std::move(folder)) {
    setup_.absent = [] { return std::vector<std::int32_t>{0}; };
    setup_.take_files = [this](std::int32_t, fetch::ModelShape shape) { copy_ = FetchedModel::in_folder(folder_, std::move(shape)); };
    setup_.before_hello = [] { return std::vector<FetchTask>{}; };
    setup_.for_plan = [this](const wire::Start&) { return std::vector<FetchTask>{{0, copy_, chunks}}; };
  }
  WeightsFetch& fetch() { return fetch_; }
  const std::shared_ptr<FetchedModel>& copy() const { return copy_; }
  LocalTransport& transport() { return transport_; }
  /// Takes what has arrived, after `damage`, and does a step.
  bool step(const std::function<void(Message&)>& damage = {}) {
    bool anything = false;
    while (auto message = transport_.receive()) {
      if (damage) damage(*message);
      fetch_.take(*message);
      anything = true;
    }
    return fetch_.advance() || anything;
  }
  std::vector<std::uint64_t> chunks;

 private:
  LocalTransport transport_;
  std::string folder_;
  FetchSetup setup_;
  std::shared_ptr<FetchedModel> copy_;
  WeightsFetch fetch_{transport_, setup_};
};

class WeightsFetchTest : public testing::Test {
 protected:
  /// The head's part.
  bool serve() {
    bool anything = false;
    while (auto message = head_.receive()) anything |= server_.take(*message);
    return server_.advance() || anything;
  }
  void run(FetchingRank& rank, const std::function<void(Message&)>& damage = {}) {
    while (!rank.fetch().finished()) {
      const bool anything = rank.step(damage);
      ASSERT_TRUE(serve() || anything) << "all wait";
    }
  }
  /// Up to the plan.
  void begin(FetchingRank& rank, const std::function<void(Message&)>& damage = {}) {
    rank.fetch().begin();
    run(rank, damage);
    rank.fetch().begin(wire::Start{});
  }
  void run_all(FetchingRank& rank, const std::function<void(Message&)>& damage = {}) {
    begin(rank, damage);
    run(rank, damage);
  }
  static std::vector<std::uint64_t> all() { return {0, 1, 2, 3, 4, 5}; }

  TestSource source_;
  LocalNetwork network_{3};
  LocalTransport head_{network_, 0};
  WeightsServer server_{head_, &source_};
  TemporaryFolder folder_;
};

TEST_F(WeightsFetchTest, Rank_getsWhatItNeedsAndKeepsIt) {
  {
    FetchingRank rank(network_, 1, folder_ / "1");
    rank.chunks = {1, 2, 4};
    run_all(rank);
    EXPECT_EQ(rank.fetch().bytes(), source_.source.chunk(1).size() + source_.source.chunk(2).size() + source_.source.chunk(4).size());
    EXPECT_EQ(rank.fetch().share(), 1);
    EXPECT_TRUE(rank.copy()->is_present(1) && !rank.copy()->is_present(0));
  }
  FetchingRank again(network_, 1, folder_ / "1");
  again.chunks = {1, 2, 4};
  run_all(again);
  EXPECT_EQ(again.fetch().bytes(), 0u);
  again.chunks = all();
  again.fetch().begin(wire::Start{});
  run(again);
  EXPECT_EQ(again.fetch().bytes(), source_.source.chunk(0).size() + source_.source.chunk(3).size() + source_.source.chunk(5).size())
      << "another layout: only what is new";
  source_.source.expect_equal(again.copy());
}

TEST_F(WeightsFetchTest, Ranks_areServedInTurn) {
  FetchingRank one(network_, 1, folder_ / "1"), two(network_, 2, folder_ / "2");
  one.chunks = two.chunks = all();
  for (FetchingRank* rank : {&one, &two}) {
    rank->fetch().begin();
    run(*rank);
  }
  for (FetchingRank* rank : {&one, &two}) {
    rank->fetch().begin(wire::Start{});
    while (rank->fetch().advance()) {
    }
  }
  for (int i = 0; i < 4; ++i) serve();
  int chunks[2] = {0, 0};
  for (FetchingRank* rank : {&one, &two}) {
    while (auto message = rank->transport().receive()) {
      chunks[rank == &two] += message->tag == Tag::kChunk;
      rank->fetch().take(*message);
    }
  }
  EXPECT_EQ(chunks[0], 2);
  EXPECT_EQ(chunks[1], 2);
  run(one), run(two);
  source_.source.expect_equal(two.copy());
}

TEST_F(WeightsFetchTest, DamagedChunk_isAskedForAgain) {
  FetchingRank rank(network_, 1, folder_ / "1");
  rank.chunks = all();
  int damaged = 0;
  run_all(rank, [&](Message& message) {
    if (message.tag == Tag::kChunk && wire::decode_chunk(message.bytes).chunk == 2 && damaged++ < 2) message.bytes.back() ^= std::byte{1};
  });
  EXPECT_EQ(damaged, 3);
  source_.source.expect_equal(rank.copy());
}

TEST_F(WeightsFetchTest, ChunkThatIsAlwaysDamaged_endsWithALine) {
  FetchingRank rank(network_, 1, folder_ / "1");
  rank.chunks = all();
  const auto damage = [](Message& message) {
    if (message.tag == Tag::kChunk) message.bytes.back() ^= std::byte{1};
  };
  EXPECT_THROW(run_all(rank, damage), ClusterError);
  EXPECT_FALSE(rank.copy()->is_present(0));
}

TEST_F(WeightsFetchTest, TwoRanksOfAMachine_fetchOnce) {
  FetchingRank one(network_, 1, folder_ / "same"), two(network_, 2, folder_ / "same");
  one.chunks = two.chunks = all();
  begin(one), begin(two);
  ASSERT_TRUE(one.fetch().advance());
  EXPECT_FALSE(two.fetch().advance()) << "the other one writes";
  const std::uint64_t before = two.fetch().progress();
  run(one);
  two.fetch().advance();
  EXPECT_GT(two.fetch().progress(), before);
  run(two);
  EXPECT_EQ(two.fetch().bytes(), 0u);
  source_.source.expect_equal(two.copy());
}

TEST_F(WeightsFetchTest, CancelledFetch_leavesTheRightToWrite) {
  FetchingRank one(network_, 1, folder_ / "same"), two(network_, 2, folder_ / "same");
  one.chunks = two.chunks = all();
  begin(one), begin(two);
  one.fetch().advance();
  one.fetch().cancel();
  run(two);
  source_.source.expect_equal(two.copy());
}

TEST_F(WeightsFetchTest, UnaskedMessages_areRefused) {
  FetchingRank rank(network_, 1, folder_ / "1");
  rank.chunks = all();
  const Message files{0, Tag::kModelFiles, wire::encode(wire::ModelFiles{0, source_.source.shape()})};
  const Message chunk{0, Tag::kChunk, wire::encode(wire::Chunk{0, 0, checksum(source_.source.chunk(0)), source_.source.chunk(0)})};
  EXPECT_THROW(rank.fetch().take(files), ClusterError);
  EXPECT_THROW(rank.fetch().take(chunk), ClusterError);
}

TEST_F(WeightsFetchTest, ImpossibleQuestions_areRefused) {
  const auto ask = [&](wire::AskChunk what) { return server_.take({1, Tag::kAskChunk, wire::encode(what)}); };
  EXPECT_THROW(ask({1, 0}), ClusterError) << "no such model";
  EXPECT_THROW(ask({0, 6}), ClusterError) << "no such chunk";
  for (std::size_t i = 0; i < kMostOutstanding; ++i) EXPECT_TRUE(ask({0, 0}));
  EXPECT_THROW(ask({0, 0}), ClusterError) << "too many";
  EXPECT_FALSE(server_.take({1, Tag::kReport, {}}));
}

/// Any damage to a message ends in an error or a second question, never in wrong weights.
TEST_F(WeightsFetchTest, RandomlyDamagedMessages_giveNoWrongBytes) {
  std::mt19937 random(5);
  const auto any = [&](std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random); };
  const int cases = thorough() ? 2000 : 20;
  int finished = 0;
  for (int i = 0; i < cases; ++i) {
    const TemporaryFolder folder;
    LocalNetwork network(2);
    LocalTransport head(network, 0);
    WeightsServer server(head, &source_);
    FetchingRank rank(network, 1, folder.path().string());
    rank.chunks = all();
    const auto damage = [&](Message& message) {
      if (any(4) == 0) message.bytes[any(any(2) == 0 ? 64 : message.bytes.size()) % message.bytes.size()] ^= std::byte{0x41};
    };
    try {
      for (int phase = 0; phase < 2; ++phase) {
        phase == 0 ? rank.fetch().begin() : rank.fetch().begin(wire::Start{});
        while (!rank.fetch().finished()) {
          bool anything = rank.step(damage);
          while (auto message = head.receive()) anything |= server.take(*message);
          if (!server.advance() && !anything) throw ClusterError("all wait");
        }
      }
      source_.source.expect_equal(rank.copy());
      ++finished;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(finished, 0);
  EXPECT_LT(finished, cases);
}

}  // namespace
}  // namespace yamata::test
