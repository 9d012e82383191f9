#include "node/cpu/state_ops.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

namespace yamata::cpu {
namespace {

constexpr std::int64_t kMostDim = StateShape::kMostDim;
constexpr float kSquaresAdded = 1e-6f;  // to the squares of a query or key before it is divided by its length

/// The natural logarithm of a normal number, at least 1: 2 atanh((m - 1) / (m + 1)) as a series, for m near 1, plus the power of two.
double log_of(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto power = static_cast<std::int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) m *= 0.5, ++power;
  const double z = (m - 1) / (m + 1), square = z * z;
  double sum = 0;
  for (int n = 21; n >= 1; n -= 2) sum = sum * square + 1.0 / n;
  return 2 * z * sum + static_cast<double>(power) * 0.69314718055994531;
}

float exp_of(const KernelTable& kernels, float x) {
  float e = 0;
  kernels.exponentials(&x, 1, &e);
  return e;
}

/// Divides a head by its length, and multiplies it by `factor`.
void unit_length(const KernelTable& kernels, float* head, std::int64_t dim, double factor) {
  float squares[kMostDim / 32 + 1];
  kernels.block_squares(head, dim, squares);
  double sum = 0;
  for (std::int64_t i = 0; i < QuantizedRows::blocks_of(dim); ++i) sum += static_cast<double>(squares[i]);
  const auto scale = static_cast<float>(factor / std::sqrt(sum + static_cast<double>(kSquaresAdded)));
  for (std::int64_t i = 0; i < dim; ++i) head[i] *= scale;
}

/// Up to kMostDim channels of the convolution's columns, from `begin` on, by the numbers of StateStep. What a row's are made of is given by
/// make(row, out), which returns them.
template <class Make>
class Columns {
 public:
  Columns(const StateShape& shape, const StatePlan& plan, const StateMemory& memory, std::int64_t begin, std::int64_t count, Make make)
      : plan_(plan), kept_(memory.columns + begin), width_(shape.channels()), count_(count), make_(make) {}

  /// Those of a step, its own first.
  void read(const StateStep& step) {
    for (std::size_t back = 0; back < StateShape::kTaps; ++back) {
      const std::int32_t column = step.columns[back];
      at_[back] = column >= 0 ? kept(column) : column == StateStep::kZero ? kZeros : make_(StateStep::row_of(column), made_[back]);
    }
  }
  const float* own() const { return at_[0]; }
  void convolve(const StateKernels& kernels, const float* taps, std::int64_t tap_count, float* sums) const {
    const float* newest_last[StateShape::kTaps];
    for (std::int64_t tap = 0; tap < tap_count; ++tap) newest_last[tap] = at_[static_cast<std::size_t>(tap_count - 1 - tap)];
    kernels.convolve(newest_last, taps, tap_count, count_, sums);
  }
  /// Keeps what later runs read of this step.
  void keep(const StateStep& step) const {
    if (step.row >= 0 && step.input >= 0) std::copy_n(own(), count_, kept(step.input));
    for (std::int32_t back = 1; step.keep >= 0 && back <= StateShape::kColumns; ++back)
      std::copy_n(at_[static_cast<std::size_t>(back - 1)], count_, kept(plan_.column_of(step.keep, back)));
  }

 private:
  static constexpr float kZeros[kMostDim] = {};
  float* kept(std::int32_t column) const { return kept_ + column * width_; }

  const StatePlan& plan_;
  float* kept_;
  std::int64_t width_, count_;
  Make make_;
  std::array<const float*, StateShape::kTaps> at_{};
  float made_[StateShape::kTaps][kMostDim];
};

/// A head of the convolution, which has queries, keys and values side by side.
struct ConvolvedHead {
  std::size_t part;          ///< 0: a query, 1: a key, 2: a value
  std::int64_t dim, within;  ///< its size, and the channels of its part before it
  std::int64_t channel;      ///< its first
  std::int64_t place;        ///< among a row's inputs: keys and values first, queries at the end
};

ConvolvedHead convolved_head(const StateShape& shape, std::int64_t number) {
  const std::int64_t part = std::min<std::int64_t>(number / shape.key_heads, 2);
  const std::int64_t dim = part == 2 ? shape.dim : shape.key_size(), within = (number - part * shape.key_heads) * dim;
  const std::int64_t channel = part * shape.keys() + within;
  return {static_cast<std::size_t>(part), dim, within, channel, part == 0 ? shape.update_floats() + within : channel - shape.keys()};
}

void convolve_head(const KernelTable& kernels, const StateInputsOp& op, std::int64_t number) {
  const StateShape& shape = op.shape;
  const ConvolvedHead head = convolved_head(shape, number);
  const std::int64_t dim = head.dim;
  const float* taps = op.taps[head.part] + head.within * StateShape::kTaps;
  const float* offsets = op.offsets[head.part] ? op.offsets[head.part] + head.within : nullptr;
  const bool of_length_1 = head.part < 2 && !shape.scan;
  const double length = head.part == 0 ? 1.0 / std::sqrt(static_cast<double>(dim)) : 1.0;
  Columns columns(shape, *op.plan, op.memory, head.channel, dim,
                  [&](std::int32_t row, float*) { return op.x + row * shape.channels() + head.channel; });
  float sums[kMostDim];
  for (const StateStep& step : op.plan->steps) {
    columns.read(step);
    if (step.row >= 0) {
      float* out = op.out + step.row * shape.input_floats() + head.place;
      columns.convolve(state_kernels(kernels.isa), taps, StateShape::kTaps, sums);
      for (std::int64_t i = 0; offsets && i < dim; ++i) sums[i] += offsets[i];
      kernels.activate(Activation::kSilu, sums, nullptr, dim, out);
      if (of_length_1) unit_length(kernels, out, dim, length);
      if (step.input >= 0 && head.part > 0) std::copy_n(out, dim, op.memory.updates + step.input * shape.update_floats() + head.place);
    }
    columns.keep(step);
  }
}

/// The convolution between two gates, for some of its channels.
void convolve_channels(const KernelTable& kernels, const GatedConvolutionOp& op, std::int64_t begin, std::int64_t count) {
  const std::int64_t channels = op.shape.channels();
  const auto gates = [&](std::int32_t row, std::int64_t which) { return op.x + (3 * row + which) * channels + begin; };
  Columns columns(op.shape, *op.plan, op.memory, begin, count, [&](std::int32_t row, float* made) {
    const float *gate = gates(row, 0), *x = gates(row, 2);
    for (std::int64_t i = 0; i < count; ++i) made[i] = gate[i] * x[i];
    return made;
  });
  float sums[kMostDim];
  for (const StateStep& step : op.plan->steps) {
    columns.read(step);
    if (step.row >= 0) {
      columns.convolve(state_kernels(kernels.isa), op.taps + begin * op.shape.taps, op.shape.taps, sums);
      const float* gate = gates(step.row, 1);
      float* out = op.out + step.row * channels + begin;
      for (std::int64_t i = 0; i < count; ++i) out[i] = gate[i] * sums[i];
    }
    columns.keep(step);
  }
}

/// Decay and strength of a head.
void make_gates(const KernelTable& kernels, const StateInputsOp& op, std::int64_t head) {
  const StateShape& shape = op.shape;
  const std::int64_t number = head + op.gates_before, at = shape.keys() + shape.values() + head;
  const std::int64_t from = number / op.gates_each * op.gates_step + number % op.gates_each;
  for (const StateStep& step : op.plan->steps) {
    if (step.row < 0) continue;
    const float* gates = op.gates + step.row * op.gates_row + from;
    const double rate = static_cast<double>(op.rate[head]), time = softplus(kernels, gates[op.gates_decay] + op.bias[head]);
    float* out = op.out + step.row * shape.input_floats() + at;
    out[0] = exp_of(kernels, static_cast<float>(rate * time));
    out[shape.heads] = shape.scan ? static_cast<float>(time) : 1.0f / (1.0f + exp_of(kernels, -gates[0]));
    if (step.input < 0) continue;
    float* kept = op.memory.updates + step.input * shape.update_floats() + at;
    kept[0] = out[0], kept[shape.heads] = out[shape.heads];
  }
}

std::int64_t block_floats(const StateShape& shape) { return shape.key_size() * StateShape::kBlock; }

/// A thread's memory: its current state, zeros, and the states that are put aside; of one block each.
class OwnStates {
 public:
  OwnStates(float* memory, const StateShape& shape) : memory_(memory), each_(block_floats(shape)) { std::fill_n(zeros(), each_, 0.0f); }
  float* current() const { return memory_; }
  float* zeros() const { return memory_ + each_; }
  float* aside(std::int32_t number) const { return memory_ + (2 + number) * each_; }

 private:
  float* memory_;
  std::int64_t each_;
};

/// The steps of one block of a head as rows of the kernel.
template <class AnyRule>
void rows_of_block(const AnyRule& op, std::int64_t head, std::int64_t block, const OwnStates& own, std::vector<DeltaRow>& rows) {
  const StateShape& shape = op.shape;
  const std::int64_t key = shape.key_head_of(head) * shape.key_size(), gates = shape.keys() + shape.values() + head;
  const std::int64_t column = head * shape.dim + block * StateShape::kBlock;
  const auto kept = [&](std::int32_t state) { return op.memory.states + state * shape.state_floats() + column * shape.key_size(); };
  float skip = 0;
  if constexpr (std::is_same_v<AnyRule, ScanOp>) skip = op.skip[head];
  rows.clear();
  for (const StateStep& step : op.plan->steps) {
    const bool here = step.row >= 0;
    const float* inputs = here ? op.inputs + step.row * shape.input_floats() : op.memory.updates + step.input * shape.update_floats();
    const std::int32_t load = step.load, states = op.plan->states;
    rows.push_back({.k = inputs + key,
                    .q = inputs + (here ? shape.update_floats() + key : key),
                    .v = inputs + shape.keys() + column,
                    .decay = inputs[gates],
                    .strength = inputs[gates + shape.heads],
                    .from = load == StateStep::kContinue ? nullptr
                            : load == StateStep::kZero   ? own.zeros()
                            : load < states              ? kept(load)
                                                         : own.aside(load - states),
                    .to = step.keep >= 0    ? kept(step.keep)
                          : step.aside >= 0 ? own.aside(step.aside)
                                            : nullptr,
                    .out = here ? op.out + step.row * shape.values() + column : nullptr,
                    .skip = skip});
  }
}

template <class AnyRule, class Kernel>
void apply(Kernel kernel, const AnyRule& op, ThreadShare share, std::vector<DeltaRow>& rows, float* memory) {
  const OwnStates own(memory, op.shape);
  const std::int64_t blocks = op.shape.dim / StateShape::kBlock, first = op.which.begin * blocks;
  for (std::int64_t item = first + share.begin; item < first + share.end; ++item) {
    rows_of_block(op, item / blocks, item % blocks, own, rows);
    kernel(rows.data(), std::ssize(rows), op.shape.key_size(), own.current());
  }
}

}  // namespace

/// Above 20, the result is x within the precision of floats.
double softplus(const KernelTable& kernels, float x) {
  if (x > 20) return static_cast<double>(x);
  return log_of(1.0 + static_cast<double>(exp_of(kernels, x)));
}

std::int64_t convolved_heads(const StateInputsOp& op) {
  return 2 * op.keys.count_of(op.shape.key_heads) + op.heads.count_of(op.shape.heads);
}

void make_state_inputs(const KernelTable& kernels, const StateInputsOp& op, ThreadShare share) {
  const std::int64_t all_keys = op.shape.key_heads, keys = op.keys.count_of(all_keys);
  for (std::int64_t item = share.begin; item < share.end; ++item) {
    if (item < 2 * keys) {
      convolve_head(kernels, op, item < keys ? op.keys.begin + item : all_keys + op.keys.begin + item - keys);
      continue;
    }
    const std::int64_t head = op.heads.begin + item - 2 * keys;
    convolve_head(kernels, op, 2 * all_keys + head);
    make_gates(kernels, op, head);
  }
}

void convolve_gated(const KernelTable& kernels, const GatedConvolutionOp& op, ThreadShare share) {
  const std::int64_t dim = op.shape.dim, end = (op.which.begin + share.end) * dim;
  for (std::int64_t at = (op.which.begin + share.begin) * dim; at < end; at += kMostDim)
    convolve_channels(kernels, op, at, std::min(kMostDim, end - at));
}

std::size_t rule_floats(const StateShape& shape, const StatePlan& plan) {
  return static_cast<std::size_t>((2 + plan.aside) * block_floats(shape));
}

void apply_rule(const StateKernels& kernels, const DeltaRuleOp& op, ThreadShare share, std::vector<DeltaRow>& rows, float* memory) {
  apply(kernels.delta_rule, op, share, rows, memory);
}

void apply_rule(const StateKernels& kernels, const ScanOp& op, ThreadShare share, std::vector<DeltaRow>& rows, float* memory) {
  apply(kernels.scan, op, share, rows, memory);
}

void gate_heads(const KernelTable& kernels, const HeadGateOp& op, ThreadShare share) {
  float squares[kMaxHeadDim / 32], e[kMaxHeadDim];
  for (std::int64_t item = share.begin; item < share.end; ++item) {
    const std::int64_t heads = op.which.count_of(op.heads), row = item / heads, head = op.which.begin + item % heads;
    float* x = op.x + (row * op.heads + head) * op.dim;
    const float* gate = op.gate + row * op.gate_row + head * op.gate_head;
    if (op.norm) {
      kernels.block_squares(x, op.dim, squares);
      kernels.scale_mul(x, kernels.inverse_rms(squares, op.dim, op.epsilon), op.norm, op.dim, x);
    }
    if (op.silu) {
      kernels.activate(Activation::kSilu, gate, x, op.dim, x);
      continue;
    }
    for (std::int64_t i = 0; i < op.dim; ++i) e[i] = -gate[i];
    kernels.exponentials(e, op.dim, e);
    for (std::int64_t i = 0; i < op.dim; ++i) x[i] /= 1.0f + e[i];
  }
}

}  // namespace yamata::cpu
