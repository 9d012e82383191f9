// Ranks that share layers give the bits of a single rank, for any shares of columns.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "node/cpu/cpu_unit.hpp"
#include "node/error.hpp"
#include "node/local_exchange.hpp"
#include "src/model/transformer_stage.hpp"
#include "tests/finish.hpp"
#include "tests/model/tales.hpp"

namespace yamata {
namespace {

/// The results of a stage's runs.
struct Result {
  std::vector<float> activations, logits, features;
  bool left = false;
  friend bool operator==(const Result&, const Result&) = default;
};
using Results = std::vector<Result>;

/// The member that stops, and the run before which it does.
struct Stop {
  int member = -1;
  std::size_t run = 0;
};

/// Counts the slices of all members.
class CountingExchange final : public GroupExchange {
 public:
  explicit CountingExchange(GroupExchange& exchange) : exchange_(exchange) {}
  int members() const override { return exchange_.members(); }
  int own() const override { return exchange_.own(); }
  bool all_gather(std::span<std::byte> slices, std::span<const std::size_t> ends, bool go_on) override {
    ++exchanges;
    bytes += ends.back() - sizeof(SliceHeader) * ends.size();
    return exchange_.all_gather(slices, ends, go_on);
  }
  void abandon() override { exchange_.abandon(); }

  std::size_t exchanges = 0, bytes = 0;

 private:
  GroupExchange& exchange_;
};

class GroupTest : public ::testing::Test {
 protected:
  GroupTest() : file_(gguf::File::open(kModel)), h_(Hyperparameters::read(file_)) {}

  /// The results of a member with `threads` threads for the tokens in chunks; on the last stage also the logits of each chunk's last row.
  /// Member stop.member sets `stop` before run stop.run.
  Results compute(LayerRange range, GroupMember group, int threads, CacheTypes types, Stop stop) {
    CpuUnit unit(std::vector<int>(static_cast<std::size_t>(threads), -1), cpu::choose_isa());
    const int member = group.member;
    TransformerStage stage(file_, h_, range, ContextOptions{256, 8, types, pack_, std::move(group)}, unit);
    if (keep_columns_) stage.keep_columns();
    stage.load(nullptr);
    finish(unit);
    Results results;
    for (std::size_t at = 0; at < kTokens.size(); at += kChunk) {
      const std::size_t n = std::min(kChunk, kTokens.size() - at);
      std::vector<Placement> placements;
      for (std::size_t i = at; i < at + n; ++i) placements.push_back({static_cast<std::int32_t>(i), -1, {0, 1}});
      const std::vector<std::int32_t> rows{static_cast<std::int32_t>(n) - 1};
      std::vector<float> activations(n * static_cast<std::size_t>(h_.dim));
      for (std::size_t i = 0; i < activations.size(); ++i) activations[i] = static_cast<float>((i * 37 + at) % 101) / 50 - 1;
      std::atomic<bool> stopped{member == stop.member && at / kChunk == stop.run};
      stage.start({std::span(kTokens).subspan(at, n), activations, placements, rows, -1, rows}, &stopped);
      finish(unit);
      Result result;
      result.left = stage.was_stopped();
      if (stage.last()) {
        result.logits.assign(stage.logits().begin(), stage.logits().end());
        result.features.assign(stage.features().begin(), stage.features().end());
      } else {
        result.activations.assign(stage.activations().begin(), stage.activations().end());
      }
      results.push_back(std::move(result));
    }
    return results;
  }

  /// The combined results of all members: each must have all activations and features, and its part of the logits.
  Results together(LayerRange range, const std::vector<double>& shares, CacheTypes types, Stop stop = {}) {
    const int members = static_cast<int>(shares.size());
    LocalGroup group(members);
    std::vector<Results> all(shares.size());
    std::vector<std::thread> threads;
    for (int m = 0; m < members; ++m) {
      threads.emplace_back([&, m] {
        const auto exchange = group.member(m);
        all[static_cast<std::size_t>(m)] = compute(range, {shares, m, exchange.get()}, 1 + m % 2, types, stop);
      });
    }
    for (auto& thread : threads) thread.join();
    Results merged = all[0];
    for (std::size_t m = 1; m < all.size(); ++m) {
      for (std::size_t r = 0; r < merged.size(); ++r) {
        EXPECT_EQ(all[m][r].activations, merged[r].activations) << "member " << m;
        EXPECT_EQ(all[m][r].features, merged[r].features) << "member " << m;
        EXPECT_EQ(all[m][r].left, merged[r].left) << "member " << m;
        merged[r].logits.insert(merged[r].logits.end(), all[m][r].logits.begin(), all[m][r].logits.end());
      }
    }
    return merged;
  }
  Results alone(LayerRange range, CacheTypes types) { return compute(range, {}, 2, types, {}); }

  static constexpr std::size_t kChunk = 3;
  gguf::File file_;
  Hyperparameters h_;
  bool pack_ = true, keep_columns_ = false;
};

TEST_F(GroupTest, everyShareGivesTheBitsOfOneRank) {
  for (const CacheTypes types : {CacheTypes(CacheType::kF16), CacheTypes(CacheType::kQ8_0, CacheType::kF32)}) {
    for (const LayerRange range : {LayerRange{0, 3}, LayerRange{3, h_.layers}}) {
      const Results expected = alone(range, types);
      ASSERT_FALSE(expected.back().logits.empty() && expected.back().activations.empty());
      for (const std::vector<double>& shares : {std::vector<double>{1, 1}, {0.7, 0.3}, {0.01, 1}, {1, 2, 1}, {0.2, 0.5, 0.1, 0.2}}) {
        EXPECT_EQ(together(range, shares, types), expected) << shares.size() << " members from layer " << range.begin;
      }
    }
  }
}

TEST_F(GroupTest, aMemberThatGivesUpEndsTheRunForAllAndTheNextIsRight) {
  pack_ = false;
  const LayerRange range{0, h_.layers};
  const Results expected = alone(range, CacheType::kF16);
  for (const int member : {0, 1, 2}) {
    const Results found = together(range, {1, 1, 1}, CacheType::kF16, {member, expected.size() - 1});
    for (std::size_t r = 0; r + 1 < found.size(); ++r) EXPECT_EQ(found[r], expected[r]);
    EXPECT_TRUE(found.back().left) << "member " << member;
  }
}

TEST_F(GroupTest, aMemberIsNotWaitedForOnceItIsAbandoned) {
  LocalGroup group(2);
  const auto exchange = group.member(0);
  exchange->abandon();
  const Results found = compute({0, 2}, {{1.0, 1.0}, 0, exchange.get()}, 2, CacheType::kF16, {});
  for (const Result& result : found) EXPECT_TRUE(result.left);
}

TEST_F(GroupTest, aLayersSlicesAreWhatTheyAreReckonedWith) {
  // Exchanges and bytes of all runs with this many layers, as counted by one member.
  const auto counted = [&](std::int64_t layers, const std::vector<double>& shares) {
    LocalGroup group(static_cast<int>(shares.size()));
    std::pair<std::size_t, std::size_t> count;
    std::vector<std::thread> threads;
    for (int m = 0; m < std::ssize(shares); ++m) {
      threads.emplace_back([&, m] {
        const auto exchange = group.member(m);
        CountingExchange counter(*exchange);
        compute({1, 1 + layers}, {shares, m, &counter}, 1, CacheType::kF16, {});
        if (m == 0) count = {counter.exchanges, counter.bytes};
      });
    }
    for (auto& thread : threads) thread.join();
    return count;
  };
  for (const std::vector<double>& shares : {std::vector<double>{1, 1}, {0.7, 0.3}, {1, 2, 1}}) {
    const auto [few_exchanges, few_bytes] = counted(2, shares);
    const auto [many_exchanges, many_bytes] = counted(5, shares);
    const std::size_t runs = (kTokens.size() + kChunk - 1) / kChunk;
    EXPECT_EQ(many_exchanges - few_exchanges, 3 * kExchangesPerLayer * runs);
    EXPECT_DOUBLE_EQ(static_cast<double>(many_bytes - few_bytes), 3 * exchange_bytes(h_) * static_cast<double>(kTokens.size()));
    keep_columns_ = true;  // a layer in the middle of a stage
    const auto [exchanges, bytes] = counted(1, shares);
    keep_columns_ = false;
    EXPECT_EQ(exchanges, kExchangesPerLayer * runs);
    EXPECT_DOUBLE_EQ(static_cast<double>(bytes), exchange_bytes(h_) * static_cast<double>(kTokens.size()));
  }
}

TEST_F(GroupTest, moreRanksThanPiecesAreRefused) {
  const std::vector<double> shares(static_cast<std::size_t>(most_members(h_)) + 1, 1.0);
  try {
    Shard(h_, shares, 0);
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("at most"), std::string::npos) << error.what();
  }
}

TEST_F(GroupTest, aMemberReadsItsPartOfTheWeights) {
  const std::size_t whole = stage_bytes(file_, h_, {2, 6});
  std::size_t sum = 0;
  for (int m = 0; m < 3; ++m) sum += stage_bytes(file_, h_, {2, 6}, Shard(h_, std::vector<double>{3, 1, 4}, m));
  EXPECT_GE(sum, whole);
  EXPECT_LT(static_cast<double>(sum), 1.05 * static_cast<double>(whole)) << "but for vectors, and keys that two need";
  EXPECT_LT(static_cast<double>(stage_bytes(file_, h_, {2, 6}, Shard(h_, std::vector<double>{3, 1, 4}, 1))),
            0.25 * static_cast<double>(whole));
}

}  // namespace
}  // namespace yamata
