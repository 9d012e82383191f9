// A stage whose layers are shared by several units of the machine gives the bits of one unit, for any shares of columns, also in a group of
// ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <tuple>

#include "node/cpu/cpu_unit.hpp"
#include "node/error.hpp"
#include "node/local_exchange.hpp"
#include "node/spin_wait.hpp"
#include "node/units/layered_unit.hpp"
#ifdef YAMATA_EMULATED_DEVICE
#include "node/cuda/cuda_unit.hpp"
#include "node/cuda/emulation/emulated_device.hpp"
#endif
#include "node/units/split_unit.hpp"
#include "src/model/transformer_stage.hpp"
#include "tests/finish.hpp"
#include "tests/model/tales.hpp"
#include "tests/thorough.hpp"

namespace yamata {
namespace {

#ifdef YAMATA_EMULATED_DEVICE
constexpr int kMinThreads = 0;
std::unique_ptr<ComputeUnit> device_unit(bool graphs = true, bool stream_waits = true) {
  return std::make_unique<cuda::CudaUnit>(std::make_unique<cuda::EmulatedDevice>(cuda::EmulatedDeviceOptions{.unified = false}), nullptr,
                                          cuda::LaunchOptions{graphs, stream_waits});
}
#else
constexpr int kMinThreads = 1;
std::unique_ptr<ComputeUnit> device_unit(bool = true, bool = true) { return nullptr; }
#endif

/// Threads and shares of units; 0 threads: an emulated device. A single entry is a plain unit.
struct Units {
  std::vector<int> threads;
  std::vector<double> shares;
  bool adapts = false;
  bool graphs = true, stream_waits = true;  ///< for devices
  AttentionCut attention = AttentionCut::kHeads;

  std::unique_ptr<ComputeUnit> make() const {
    if (threads.size() == 1) return std::move(parts()[0].unit);
    return split();
  }
  std::unique_ptr<SplitUnit> split() const {
    auto unit = std::make_unique<SplitUnit>(parts(), adapts, kSpinsUnbound);
    unit->divide_attention(attention);
    return unit;
  }
  std::vector<UnitPart> parts() const {
    std::vector<UnitPart> parts;
    for (std::size_t i = 0; i < threads.size(); ++i) {
      const bool device = threads[i] == 0;
      std::unique_ptr<ComputeUnit> unit;
      if (device)
        unit = device_unit(graphs, stream_waits);
      else
        unit = std::make_unique<CpuUnit>(std::vector<int>(static_cast<std::size_t>(threads[i]), -1), cpu::choose_isa());
      parts.push_back({(device ? "emulated:" : "cpu:") + std::to_string(i), std::move(unit), shares[i], device});
    }
    return parts;
  }
  static Units random(std::mt19937& random, int most) {
    Units units{.threads = {}, .shares = {}, .adapts = random() % 2 == 0};
    const int count = std::uniform_int_distribution(2, most)(random);
    for (int i = 0; i < count; ++i) {
      units.threads.push_back(std::uniform_int_distribution(kMinThreads, 2)(random));
      units.shares.push_back(std::uniform_real_distribution(0.02, 1.0)(random));
    }
    units.graphs = random() % 4 != 0, units.stream_waits = random() % 2 == 0;
    units.attention = static_cast<AttentionCut>(random() % 3);
    return units;
  }
};

/// The results of runs with these widths, one after another.
struct UnitResults {
  std::vector<std::vector<float>> activations, logits, features;
  bool left = false;
  friend bool operator==(const UnitResults&, const UnitResults&) = default;
};

class UnitsTest : public ::testing::Test {
 protected:
  UnitsTest() : file_(gguf::File::open(kModel)), h_(Hyperparameters::read(file_)) {}

  UnitResults compute(ComputeUnit& unit, LayerRange range, std::span<const int> widths, CacheTypes types, const GroupMember& group = {},
                      int stopped_at = -1) {
    TransformerStage stage(file_, h_, range, ContextOptions{1024, 8, types, pack_, group, 0, 0, {}, first_layers_}, unit);
    stage.load(nullptr);
    finish(unit);
    if (!group.exchange) device_ = stage.device();
    UnitResults results;
    std::int32_t position = 0;
    for (std::size_t run = 0; run < widths.size(); ++run) {
      std::vector<Placement> placements;
      std::vector<std::int32_t> tokens, rows;
      for (int i = 0; i < widths[run]; ++i, ++position) {
        placements.push_back({position, -1, {0, 1}});
        tokens.push_back((position * 37 + 11) % 4096);
        if (i % 3 == 0) rows.push_back(i);
      }
      std::vector<float> activations(tokens.size() * static_cast<std::size_t>(h_.dim));
      for (std::size_t i = 0; i < activations.size(); ++i) activations[i] = static_cast<float>((i * 37 + run) % 101) / 50 - 1;
      const std::atomic<bool> stop{stopped_at == static_cast<int>(run)};
      const std::vector<std::int32_t> layers{static_cast<std::int32_t>(range.begin) + 1, kOutputFeatures};
      stage.start({.tokens = tokens,
                   .activations = activations,
                   .placements = placements,
                   .logit_rows = rows,
                   .feature_rows = rows,
                   .features = {},
                   .feature_layers = layers},
                  &stop);
      finish(unit);
      results.left = stage.was_stopped();
      if (!stage.last()) results.activations.emplace_back(stage.activations().begin(), stage.activations().end());
      if (stage.last()) results.logits.emplace_back(stage.logits().begin(), stage.logits().end());
      results.features.emplace_back(stage.features().begin(), stage.features().end());
    }
    return results;
  }
  UnitResults alone(LayerRange range, std::span<const int> widths, CacheTypes types) {
    CpuUnit unit({-1}, cpu::choose_isa());
    return compute(unit, range, widths, types);
  }

  /// The members' parts of the vocabulary, combined row by row.
  std::vector<float> together(const std::vector<UnitResults>& members, std::size_t run, int width) const {
    const auto rows = static_cast<std::size_t>((width + 2) / 3);
    std::vector<float> all;
    for (std::size_t row = 0; row < rows; ++row) {
      for (const UnitResults& member : members) {
        const std::vector<float>& part = member.logits[run];
        const auto width = static_cast<std::ptrdiff_t>(part.size() / rows);
        all.insert(all.end(), part.begin() + static_cast<std::ptrdiff_t>(row) * width,
                   part.begin() + static_cast<std::ptrdiff_t>(row + 1) * width);
      }
    }
    return all;
  }

  gguf::File file_;
  Hyperparameters h_;
  bool pack_ = true;
  std::int64_t first_layers_ = 0;
  std::string device_;
};

/// A device, or a core in its place, computes a model's first layers, and this many groups of cores the others.
std::unique_ptr<ComputeUnit> layered_unit(std::size_t groups) {
  const Units cores{std::vector<int>(groups, 1), std::vector<double>(groups, 0.5)};
  return std::make_unique<LayeredUnit>(Units{{kMinThreads}, {1}}.make(), cores.make());
}

TEST_F(UnitsTest, wholeLayersOfTwoUnits_haveTheBitsOfOne) {
  const std::vector<int> widths{20, 1, 3, 1};
  for (const LayerRange range : {LayerRange{0, 3}, LayerRange{2, 5}, LayerRange{5, h_.layers}}) {
    const CacheTypes types(CacheType::kQ8_0, CacheType::kF32);
    const UnitResults expected = alone(range, widths, types);
    for (const std::int64_t first : {0, 1, 2, 99}) {
      first_layers_ = first;
      pack_ = first != 1;
      const auto unit = layered_unit(first == 2 ? 2 : 1);
      EXPECT_EQ(compute(*unit, range, widths, types), expected) << "from layer " << range.begin << ", " << device_;
      const bool both = first > 0 && first < range.count();
      EXPECT_EQ(device_.find("layer") != std::string::npos, both) << device_;
      if (first == 1) {
        EXPECT_NE(device_.find("(1 layer)+cpu (2 layers)"), std::string::npos) << device_;
      }
    }
  }
}

TEST_F(UnitsTest, aRunOfWholeLayers_isLeftWhenNobodyWantsIt) {
  first_layers_ = 2;
  const auto unit = layered_unit(1);
  EXPECT_FALSE(compute(*unit, {0, 4}, std::vector<int>{5, 1}, CacheType::kF16).left);
  EXPECT_TRUE(compute(*unit, {0, 4}, std::vector<int>{5, 1}, CacheType::kF16, {}, 1).left);
}

TEST_F(UnitsTest, membersOfAGroup_mayHaveWholeLayersOnADevice) {
  const std::vector<int> widths{9, 1, 4, 1};
  const LayerRange range{1, 5};
  const UnitResults expected = alone(range, widths, CacheType::kF16);
  first_layers_ = 2;
  for (const int stopped_at : {-1, 3}) {
    const std::vector<double> shares{0.4, 0.6};
    LocalGroup group(2);
    std::vector<UnitResults> members(2);
    std::vector<std::thread> threads;
    for (int m = 0; m < 2; ++m) {
      threads.emplace_back([&, m] {
        const auto exchange = group.member(m);
        const auto unit = m == 0 ? layered_unit(2) : Units{{1}, {1}}.make();
        members[static_cast<std::size_t>(m)] =
            compute(*unit, range, widths, CacheType::kF16, {shares, m, exchange.get()}, m == 0 ? stopped_at : -1);
      });
    }
    for (auto& thread : threads) thread.join();
    for (const UnitResults& member : members) {
      EXPECT_EQ(member.left, stopped_at >= 0) << "all, or none";
      if (stopped_at < 0) {
        EXPECT_EQ(member.activations, expected.activations);
      }
    }
  }
}

TEST_F(UnitsTest, randomCutsGiveTheBitsOfOneUnit) {
  const std::vector<int> widths{40, 1, 3, 1, 17, 1, 7, 1};
  std::mt19937 random(3);
  for (const LayerRange range : {LayerRange{0, 3}, LayerRange{3, 5}, LayerRange{5, h_.layers}}) {
    for (const CacheTypes types : {CacheTypes(CacheType::kF16), CacheTypes(CacheType::kQ8_0, CacheType::kF32)}) {
      const UnitResults expected = alone(range, widths, types);
      for (int round = 0; round < (test::thorough() ? 4 : 2); ++round) {
        const Units units = Units::random(random, 4);
        pack_ = round != 0;
        const auto unit = units.split();
        if (round % 2 == 1) unit->divide_attention_apart();
        EXPECT_EQ(compute(*unit, range, widths, types), expected) << "from layer " << range.begin << " on " << unit->device();
      }
    }
  }
}

/// The kinds of work that had a time in the latest run.
std::vector<WorkKind> timed(SplitUnit& unit) {
  std::vector<WorkKind> kinds;
  for (int label = 1; label < static_cast<int>(unit.shares().labels()); ++label) {
    bool has_time = true;
    for (int part = 0; part < unit.units(); ++part) has_time &= unit.computed_s(label, part) > 0;
    if (has_time) kinds.push_back(unit.shares().kind(label));
  }
  return kinds;
}

/// As many kinds of products, and attention, on one unit as on two: so the times of each alone are those of the same work.
TEST_F(UnitsTest, attentionApart_isMeasuredOnOneUnit_too) {
  for (const bool pack : {true, false}) {
    pack_ = pack;
    std::vector<WorkKind> kinds;
    for (const Units& units : {Units{{1}, {1}}, Units{{kMinThreads}, {1}}, Units{{1, 1}, {0.5, 0.5}}}) {
      const auto unit = units.split();
      unit->divide_attention_apart();
      compute(*unit, {h_.layers - 1, h_.layers}, std::vector<int>{17}, CacheType::kF16);
      if (kinds.empty()) kinds = timed(*unit);
      EXPECT_EQ(kinds, timed(*unit)) << unit->device();
    }
    EXPECT_EQ(std::ranges::count(kinds, WorkKind::What::kAttention, &WorkKind::what), 1);
    EXPECT_EQ(std::ranges::count(kinds, WorkKind::What::kProduct, &WorkKind::what), 5) << "of a layer, and the logits";
  }
}

TEST_F(UnitsTest, aLongContextIsCutInSegmentsWithTheSameBits) {
  const std::vector<int> widths = test::thorough() ? std::vector{600, 300, 1, 5} : std::vector{520, 1, 5};
  const LayerRange range{0, test::thorough() ? 2 : 1};
  const UnitResults expected = alone(range, widths, CacheType::kF16);
  using enum AttentionCut;
  for (const auto& [units, cut] :
       {std::pair{Units{{1, 1}, {0.56, 0.44}}, kHeads}, std::pair{Units{{1, 1}, {0.9, 0.1}}, kStatic},
        std::pair{Units{{2, 1}, {0.3, 0.7}, true}, kDynamic}, std::pair{Units{{1, kMinThreads}, {0.44, 0.56}}, kHeads},
        std::pair{Units{{1, kMinThreads}, {0.5, 0.5}}, kDynamic}}) {
    const auto unit = units.make();
    dynamic_cast<SplitUnit&>(*unit).divide_attention(cut);
    EXPECT_EQ(compute(*unit, range, widths, CacheType::kF16), expected) << unit->device();
  }
}

TEST_F(UnitsTest, membersOfAGroupMayBeSeveralUnits) {
  const std::vector<int> widths{9, 1, 4, 1};
  std::mt19937 random(5);
  for (const LayerRange range : {LayerRange{0, 4}, LayerRange{4, h_.layers}}) {
    const UnitResults expected = alone(range, widths, CacheType::kF16);
    for (int stopped_at : {-1, -1, -1, 3}) {
      const std::vector<double> shares{0.3, 0.5, 0.2};
      LocalGroup group(3);
      std::vector<UnitResults> members(3);
      std::vector<std::thread> threads;
      for (int m = 0; m < 3; ++m) {
        const Units units = m == 1 ? Units{{stopped_at < 0 ? kMinThreads : 2}, {1}} : Units::random(random, 3);
        threads.emplace_back([&, m, units] {
          const auto exchange = group.member(m);
          const auto unit = units.make();
          members[static_cast<std::size_t>(m)] =
              compute(*unit, range, widths, CacheType::kF16, {shares, m, exchange.get()}, m == 2 ? stopped_at : -1);
        });
      }
      for (auto& thread : threads) thread.join();
      for (std::size_t m = 0; m < 3; ++m) {
        EXPECT_EQ(members[m].left, stopped_at >= 0) << "all, or none";
        if (stopped_at >= 0) continue;
        EXPECT_EQ(members[m].activations, expected.activations);
        EXPECT_EQ(members[m].features, expected.features);
      }
      if (stopped_at >= 0 || range.end < h_.layers) continue;
      for (std::size_t run = 0; run < widths.size(); ++run) EXPECT_EQ(together(members, run, widths[run]), expected.logits[run]);
    }
  }
}

TEST_F(UnitsTest, aRunIsLeftByAllUnitsAndTheNextIsRight) {
  const std::vector<int> widths{5, 1, 1}, without{5, 1};
  const LayerRange range{0, h_.layers};
  CpuUnit one({-1}, cpu::choose_isa());
  const auto unit = Units{{1, 1, kMinThreads}, {1, 2, 1}}.make();
  for (int stopped_at : {0, 1, 2}) {
    const UnitResults found = compute(*unit, range, widths, CacheType::kF16, {}, stopped_at);
    EXPECT_EQ(found.left, stopped_at == 2);
    if (stopped_at == 2) {
      EXPECT_EQ(found.logits[1], alone(range, without, CacheType::kF16).logits[1]);
    }
  }
}

#ifdef YAMATA_EMULATED_DEVICE
/// Cancels at its exchange of that number, or is lost there.
class FaultyMember final : public GroupExchange {
 public:
  FaultyMember(std::unique_ptr<GroupExchange> member, int at, bool lost) : member_(std::move(member)), at_(at), lost_(lost) {}
  int members() const override { return member_->members(); }
  int own() const override { return member_->own(); }
  bool all_gather(std::span<std::byte> slices, std::span<const std::size_t> ends, bool go_on) override {
    const bool now = ++exchanges_ == at_;
    if (now && lost_) {
      member_->abandon();
      throw ClusterError("a rank is lost");
    }
    return member_->all_gather(slices, ends, go_on && !now);
  }
  void abandon() override { member_->abandon(); }
  int exchanges() const { return exchanges_; }

 private:
  std::unique_ptr<GroupExchange> member_;
  const int at_;
  const bool lost_;
  int exchanges_ = 0;
};

/// Two members, one of which has a device; waits are in its stream or on its host. They leave the run of two layers at each synchronization
/// in turn.
class UnitsLeave : public UnitsTest, public testing::WithParamInterface<std::tuple<bool, bool, bool, bool>> {};

TEST_P(UnitsLeave, atEachBarrier_andTheNextRunIsRight) {
  const bool with_cores = std::get<0>(GetParam()), lost = std::get<1>(GetParam());  // clang 14 captures no structured bindings
  const bool graphs = std::get<2>(GetParam()), stream_waits = std::get<3>(GetParam());
  const std::vector<int> once{3}, again{3, 1};
  const LayerRange range{0, 2};
  const UnitResults expected = alone(range, again, CacheType::kF16);
  const std::vector<double> shares{0.5, 0.5};
  const auto make = [=] {
    return with_cores ? Units{{1, 0}, {1, 1}, false, graphs, stream_waits}.make() : device_unit(graphs, stream_waits);
  };
  auto device = make();
  CpuUnit cores({-1}, cpu::choose_isa());
  bool reached = true;
  const auto member = [&](ComputeUnit& unit, int own, LocalGroup& group, const std::vector<int>& widths, int faulty_at) {
    FaultyMember exchange(group.member(own), faulty_at, lost);
    UnitResults results;
    try {
      results = compute(unit, range, widths, CacheType::kF16, {shares, own, &exchange});
    } catch (const ClusterError&) {
      results.left = true;
    }
    if (faulty_at > 0) reached = exchange.exchanges() >= faulty_at;
    return results;
  };
  const auto both = [&](const std::vector<int>& widths, int faulty_at) {
    LocalGroup group(2);
    UnitResults others;
    std::thread other([&] { others = member(cores, 1, group, widths, 0); });
    const UnitResults own = member(*device, 0, group, widths, faulty_at);
    other.join();
    EXPECT_EQ(own.left, others.left);
    return own;
  };
  for (int at = 1; reached; ++at) {
    ASSERT_LT(at, 100) << "they synchronize a few times in two layers";
    if (!graphs) device = make();  // a device that has not copied anything yet
    EXPECT_EQ(both(once, at).left, reached) << "at " << at;
    const UnitResults found = both(again, 0);
    EXPECT_FALSE(found.left);
    EXPECT_TRUE(found.activations == expected.activations) << "after " << at;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, UnitsLeave, testing::Combine(testing::Bool(), testing::Bool(), testing::Bool(), testing::Bool()));
#endif

}  // namespace
}  // namespace yamata
