// The gated delta rule, and Mamba-2's scan: the same bits everywhere, and correct numbers.
#include <cmath>

#include "node/state_op.hpp"
#include "tests/node/cpu/kernels/support.hpp"

namespace yamata::cpu {
namespace {

constexpr unsigned kSeed = 91;
constexpr std::int64_t kColumns = StateShape::kBlock;

/// Rows of one block: a chain from a state, then a row from the state of the second one, which was kept.
class Rule {
 public:
  explicit Rule(std::int64_t dim, bool scan = false) : dim_(dim), scan_(scan) {
    Random random(kSeed);
    const auto n = static_cast<std::size_t>(dim);
    keys_ = random_floats(random, kRows * n), queries_ = random_floats(random, kRows * n);
    for (float& x : keys_) x /= std::sqrt(static_cast<float>(dim));
    values_ = random_floats(random, kRows * kColumns), before_ = random_floats(random, n * kColumns);
    gates_ = random_floats(random, 2 * kRows);
  }

  std::vector<float> compute(const StateKernels& table) {
    const auto floats = static_cast<std::size_t>(dim_ * kColumns);
    std::vector<float> state(floats), kept(floats), last(floats), out(kRows * kColumns);
    std::vector<DeltaRow> rows;
    for (std::size_t r = 0; r < kRows; ++r) rows.push_back(row(r, out));
    rows[0].from = before_.data();
    rows[1].to = kept.data();
    rows[3].from = kept.data(), rows[3].to = last.data();
    (scan_ ? table.scan : table.delta_rule)(rows.data(), kRows, dim_, state.data());
    out.insert(out.end(), kept.begin(), kept.end());
    out.insert(out.end(), last.begin(), last.end());
    return out;
  }

  /// The results of all rows, by the definition.
  std::vector<double> reference() const {
    std::vector<double> state(before_.begin(), before_.end()), kept, out;
    for (std::size_t r = 0; r < kRows; ++r) {
      if (r == 3) state = kept;
      for (std::size_t c = 0; c < kColumns; ++c) {
        double found = 0, read = 0;
        for (std::size_t i = 0; i < dim(); ++i) found += (state[i * kColumns + c] *= decay(r)) * static_cast<double>(keys_[r * dim() + i]);
        const double value = static_cast<double>(values_[r * kColumns + c]), change = (value - (scan_ ? 0 : found)) * strength(r);
        for (std::size_t i = 0; i < dim(); ++i) {
          state[i * kColumns + c] += static_cast<double>(keys_[r * dim() + i]) * change;
          read += state[i * kColumns + c] * static_cast<double>(queries_[r * dim() + i]);
        }
        out.push_back(read + (scan_ ? kSkip * value : 0));
      }
      if (r == 1) kept = state;
    }
    return out;
  }

 private:
  static constexpr std::size_t kRows = 4;
  static constexpr double kSkip = 0.75;
  std::size_t dim() const { return static_cast<std::size_t>(dim_); }
  double decay(std::size_t r) const { return static_cast<double>(0.5f + 0.5f * std::abs(gates_[2 * r])); }
  double strength(std::size_t r) const { return static_cast<double>(std::abs(gates_[2 * r + 1])); }
  DeltaRow row(std::size_t r, std::vector<float>& out) const {
    return {.k = keys_.data() + r * dim(),
            .q = queries_.data() + r * dim(),
            .v = values_.data() + r * kColumns,
            .decay = static_cast<float>(decay(r)),
            .strength = static_cast<float>(strength(r)),
            .from = nullptr,
            .to = nullptr,
            .out = out.data() + r * kColumns,
            .skip = static_cast<float>(kSkip)};
  }

  std::int64_t dim_;
  bool scan_;
  std::vector<float> keys_, queries_, values_, gates_, before_;
};

TEST(DeltaRule, equals_scalar_bit_for_bit) {
  for (const NamedStateKernels& t : state_kernels_under_test()) {
    for (const std::int64_t dim : {16, 32, 48, 128, 256}) {
      Rule rule(dim);
      EXPECT_EQ(rule.compute(*t.table), rule.compute(state_kernels(Isa::kScalar))) << t.name << " " << dim;
    }
  }
}

TEST(Scan, equals_scalar_bit_for_bit) {
  for (const NamedStateKernels& t : state_kernels_under_test()) {
    for (const std::int64_t dim : {16, 48, 128, 256}) {
      Rule scan(dim, true);
      EXPECT_EQ(scan.compute(*t.table), scan.compute(state_kernels(Isa::kScalar))) << t.name << " " << dim;
    }
  }
}

TEST(DeltaRuleAndScan, follow_their_definitions) {
  for (const bool scan : {false, true}) {
    Rule rule(128, scan);
    const std::vector<float> found = rule.compute(state_kernels(Isa::kScalar));
    const std::vector<double> expected = rule.reference();
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(static_cast<double>(found[i]), expected[i], 1e-4) << i;
  }
}

TEST(Convolution, equals_scalar_and_its_definition) {
  for (const NamedStateKernels& t : state_kernels_under_test()) {
    for (const auto& [channels, count] : {std::pair{16, 4}, {48, 4}, {128, 4}, {48, 3}, {48, 2}}) {
      Random random(kSeed);
      const auto n = static_cast<std::size_t>(channels), tap_count = static_cast<std::size_t>(count);
      const std::vector<float> x = random_floats(random, tap_count * n), taps = random_floats(random, tap_count * n);
      std::vector<const float*> columns;
      for (std::size_t tap = 0; tap < tap_count; ++tap) columns.push_back(x.data() + tap * n);
      std::vector<float> found(n), scalar(n);
      t.table->convolve(columns.data(), taps.data(), count, channels, found.data());
      state_kernels(Isa::kScalar).convolve(columns.data(), taps.data(), count, channels, scalar.data());
      EXPECT_EQ(found, scalar) << t.name << " " << channels << " of " << count;
      for (std::size_t c = 0; c < n; ++c) {
        double sum = 0;
        for (std::size_t tap = 0; tap < tap_count; ++tap)
          sum += static_cast<double>(x[tap * n + c]) * static_cast<double>(taps[c * tap_count + tap]);
        EXPECT_NEAR(static_cast<double>(found[c]), sum, 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace yamata::cpu
