// The highest logit of a row, where only that is asked for: the one that the host finds among all, whatever unit finds it.
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>
#include <thread>

#include "node/cpu/cpu_unit.hpp"
#include "node/local_exchange.hpp"
#include "node/spin_wait.hpp"
#include "node/units/layered_unit.hpp"
#include "node/units/split_unit.hpp"
#ifdef YAMATA_EMULATED_DEVICE
#include "node/cuda/cuda_unit.hpp"
#include "node/cuda/emulation/emulated_device.hpp"
#endif
#include "src/model/transformer_stage.hpp"
#include "src/sampling/best_logits.hpp"
#include "tests/finish.hpp"
#include "tests/model/tales.hpp"

namespace yamata {
namespace {

constexpr int kRunTokens = 7;
constexpr std::size_t kRows = 5;

std::unique_ptr<ComputeUnit> cores(int threads) {
  return std::make_unique<CpuUnit>(std::vector<int>(static_cast<std::size_t>(threads), -1), cpu::choose_isa());
}

/// Cores where there is none.
std::unique_ptr<ComputeUnit> device([[maybe_unused]] bool unified) {
#ifdef YAMATA_EMULATED_DEVICE
  return std::make_unique<cuda::CudaUnit>(std::make_unique<cuda::EmulatedDevice>(cuda::EmulatedDeviceOptions{.unified = unified}), nullptr,
                                          cuda::LaunchOptions{});
#else
  return cores(1);
#endif
}

std::unique_ptr<ComputeUnit> split(std::vector<std::unique_ptr<ComputeUnit>> units, std::vector<double> shares) {
  std::vector<UnitPart> parts;
  for (std::size_t i = 0; i < units.size(); ++i) parts.push_back({"unit", std::move(units[i]), shares[i], i > 0});
  return std::make_unique<SplitUnit>(std::move(parts), false, kSpinsUnbound);
}

std::unique_ptr<ComputeUnit> two(std::unique_ptr<ComputeUnit> first, std::unique_ptr<ComputeUnit> second, double share) {
  std::vector<std::unique_ptr<ComputeUnit>> units;
  units.push_back(std::move(first));
  units.push_back(std::move(second));
  return split(std::move(units), {share, 1 - share});
}

class HighestTest : public ::testing::Test {
 protected:
  HighestTest() : file_(gguf::File::open(kModel)), h_(Hyperparameters::read(file_)) { range_ = {h_.layers - 2, h_.layers}; }

  /// Of a run of some tokens, after one that asked for the other.
  struct Found {
    BestLogits highest;
    std::vector<float> logits;
  };
  Found compute(ComputeUnit& unit, const GroupMember& group = {}, std::int64_t first_layers = 0) {
    const ContextOptions options{.cells = 64, .sequences = 1, .cache_types = CacheType::kF16, .group = group, .first_layers = first_layers};
    TransformerStage stage(file_, h_, range_, options, unit);
    stage.load(nullptr);
    finish(unit);
    Found found;
    const auto run = [&](int first, bool only_highest) {
      std::vector<Placement> placements;
      std::vector<float> activations(kRunTokens * static_cast<std::size_t>(h_.dim));
      for (int i = 0; i < kRunTokens; ++i) placements.push_back({first + i, -1, {0, 1}});
      for (std::size_t i = 0; i < activations.size(); ++i) activations[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
      const std::vector<std::int32_t> tokens(kRunTokens, 1), rows{0, 1, 3, 5, 6};
      stage.start(
          {.tokens = tokens, .activations = activations, .placements = placements, .logit_rows = rows, .only_highest = only_highest},
          nullptr);
      finish(unit);
      EXPECT_EQ(stage.highest().size(), only_highest ? kRows : 0);
    };
    run(0, true);
    for (const Highest& highest : stage.highest()) {
      found.highest.tokens.push_back(highest.column + static_cast<std::int32_t>(stage.logit_tokens().begin));
      found.highest.values.push_back(highest.value);
    }
    stage.cells().clear();
    run(0, false);
    found.logits.assign(stage.logits().begin(), stage.logits().end());
    return found;
  }
  void expect_of_all(const Found& found, const std::vector<float>& logits, const char* what) {
    const BestLogits expected = best_logits(logits, static_cast<std::size_t>(h_.vocabulary), 1);
    EXPECT_EQ(found.highest.tokens, expected.tokens) << what;
    EXPECT_EQ(found.highest.values, expected.values) << what;
    EXPECT_EQ(found.logits, logits) << what;
  }

  gguf::File file_;
  Hyperparameters h_;
  LayerRange range_;
};

TEST_F(HighestTest, ofAUnit_isTheOneOfTheHost) {
  std::mt19937 random(1);
  for (const std::size_t cols : {1u, 31u, 32u, 33u, 1000u}) {
    std::vector<float> x(3 * cols);
    for (float& value : x) {
      const auto kind = random() % 10;
      value = kind == 0   ? std::numeric_limits<float>::quiet_NaN()
              : kind == 1 ? -std::numeric_limits<float>::infinity()
                          : static_cast<float>(random() % 20);
    }
    std::vector<Highest> found(3);
    const Op op = HighestOp{x.data(), 3, static_cast<std::int64_t>(cols), found.data()};
    const auto unit = cores(2);
    unit->start(std::span(&op, 1), nullptr);
    finish(*unit);
    const BestLogits expected = best_logits(x, cols, 1);
    for (std::size_t row = 0; row < 3; ++row) {
      EXPECT_EQ(found[row].column, expected.tokens[row]) << cols;
      EXPECT_EQ(found[row].value, expected.values[row]) << cols;
    }
  }
}

/// Plain logits, capped ones, and all equal: of these the first of all units' is the highest.
TEST_F(HighestTest, ofAStage_isTheOneOfAllLogits_onAnyUnits) {
  for (const auto& [scale, cap] : {std::pair(1.0f, 0.0f), std::pair(1.0f, 5.0f), std::pair(0.0f, 0.0f)}) {
    h_.logit_scale = scale, h_.logit_softcap = cap;
    const std::vector<float> logits = compute(*cores(1)).logits;
    expect_of_all(compute(*cores(2)), logits, "cores");
    expect_of_all(compute(*device(true)), logits, "a device");
    expect_of_all(compute(*device(false)), logits, "a device with memory of its own");
    expect_of_all(compute(*two(cores(1), cores(1), 0.3)), logits, "two groups of cores");
    expect_of_all(compute(*two(cores(1), device(false), 0.6)), logits, "cores and a device");
    LayeredUnit layered(device(false), cores(1));
    expect_of_all(compute(layered, {}, 1), logits, "the output on cores");
    expect_of_all(compute(layered, {}, 2), logits, "the output on a device");
  }
}

TEST_F(HighestTest, ofMembers_isOfTheirOwnTokens) {
  const std::vector<float> logits = compute(*cores(1)).logits;
  const std::vector<double> shares{0.4, 0.6};
  LocalGroup group(2);
  std::vector<Found> members(2);
  std::vector<std::thread> threads;
  for (int m = 0; m < 2; ++m) {
    threads.emplace_back([&, m] {
      const auto exchange = group.member(m);
      const auto unit = m == 0 ? two(cores(1), device(true), 0.5) : cores(1);
      members[static_cast<std::size_t>(m)] = compute(*unit, {shares, m, exchange.get()});
    });
  }
  for (auto& thread : threads) thread.join();
  const BestLogits expected = best_logits(logits, static_cast<std::size_t>(h_.vocabulary), 1);
  for (std::size_t row = 0; row < kRows; ++row) {
    const bool second = members[1].highest.values[row] > members[0].highest.values[row];
    EXPECT_EQ(members[second ? 1 : 0].highest.tokens[row], expected.tokens[row]);
    EXPECT_EQ(members[second ? 1 : 0].highest.values[row], expected.values[row]);
  }
}

}  // namespace
}  // namespace yamata
