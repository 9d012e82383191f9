#pragma once
// Layers with states, and gates of heads (node/state_op.hpp), in the order of the CPU's kernels (node/cpu/state_ops.cpp,
// state_template.hpp).
#include "node/cuda/kernels/arithmetic.hpp"
#include "node/cuda/kernels/device_kernels.hpp"

namespace yamata::cuda {
namespace {

constexpr int kStateTaps = 4, kStateColumns = 16, kStateSums = 4;

/// The natural logarithm of a normal number, at least 1, as on the CPU.
YAMATA_DEVICE double logarithm(double x) {
  const std::uint64_t bits = simt::bits_of_double(x);
  auto power = static_cast<std::int64_t>(bits >> 52) - 1023;
  double m = simt::double_of_bits((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) m *= 0.5, ++power;
  const double z = (m - 1) / (m + 1), square = z * z;
  double sum = 0;
  for (int n = 21; n >= 1; n -= 2) sum = sum * square + 1.0 / n;
  return 2 * z * sum + static_cast<double>(power) * 0.69314718055994531;
}

YAMATA_DEVICE double softplus(float x) {
  if (x > 20) return static_cast<double>(x);
  return logarithm(1.0 + static_cast<double>(exponential(x)));
}

/// A column of the convolution, by the numbers of StateStep; null: zeros.
YAMATA_DEVICE const float* state_column(const StateInputsArgs& a, std::int32_t column) {
  if (column >= 0) return a.columns + column * a.channels;
  return column == DeviceStep::kZero ? nullptr : a.x + (DeviceStep::kZero - 1 - column) * a.channels;
}

/// A head of the convolution.
struct ConvolvedHead {
  std::int64_t dim, first;      ///< its size, and its first channel
  const float *taps, *offsets;  ///< its own; `offsets` may be null
  double length;                ///< it is divided by its length and multiplied by this; 0: it stays as it is
};

/// A head for one row: silu of the sums.
YAMATA_DEVICE void convolve_head(const StateInputsArgs& a, const DeviceStep& step, const ConvolvedHead& head, float* out) {
  double squares = 0;
  for (std::int64_t block = 0; block < divide_up(head.dim, simt::kWarp); ++block) {
    const std::int64_t d = block * simt::kWarp + simt::lane();
    float value = 0;
    if (simt::within(d, head.dim)) {
      for (int tap = 0; tap < kStateTaps; ++tap) {
        const float* column = state_column(a, step.columns[kStateTaps - 1 - tap]);
        const float x = column ? column[head.first + d] : 0.0f, weight = head.taps[d * kStateTaps + tap];
        value = tap == 0 ? weight * x : simt::fma(weight, x, value);
      }
      if (head.offsets) value += head.offsets[d];
      value = activated(Activation::kSilu, value, 1.0f, false);
      out[d] = value;
    }
    squares += static_cast<double>(block_square(value));
  }
  if (head.length == 0) return;
  const auto scale = static_cast<float>(head.length / simt::square_root(squares + static_cast<double>(1e-6f)));
  for (std::int64_t d = simt::lane(); d < head.dim; d += simt::kWarp) out[d] *= scale;
}

/// Decay and strength of a head for one row.
YAMATA_DEVICE void make_gates(const StateInputsArgs& a, std::int64_t row, std::int64_t head, float* decay) {
  const std::int64_t number = head + a.gates_before;
  const float* gates = a.gates + row * a.gates_row + number / a.gates_each * a.gates_step + number % a.gates_each;
  const double rate = static_cast<double>(a.rate[head]), time = softplus(gates[a.gates_decay] + a.bias[head]);
  decay[0] = exponential(static_cast<float>(rate * time));
  decay[a.heads] = a.scan ? static_cast<float>(time) : 1.0f / (1.0f + exponential(-gates[0]));
}

/// One warp for a head of the convolution in one step.
YAMATA_KERNEL void YAMATA_BOUNDS(simt::kWarp) prepare_states(const StateInputsArgs a) {
  const DeviceStep step = a.steps[simt::block_y()];
  const std::int64_t item = simt::block_x(), keys = a.key_end - a.key_begin;
  const int part = item < keys ? 0 : item < 2 * keys ? 1 : 2;
  const std::int64_t head = part == 2 ? a.head_begin + item - 2 * keys : a.key_begin + item - part * keys;
  const std::int64_t dim = part == 2 ? a.dim : a.key_dim, within = head * dim, all_keys = a.key_heads * a.key_dim;
  const std::int64_t first = part * all_keys + within, updates = all_keys + a.heads * a.dim + 2 * a.heads, inputs = updates + all_keys;
  const std::int64_t at = part == 0 ? updates + within : first - all_keys, gate = updates - 2 * a.heads + head;
  if (step.row >= 0) {
    float* out = a.out + step.row * inputs;
    const double length = part == 2 || a.scan ? 0.0 : part == 1 ? 1.0 : 1.0 / simt::square_root(static_cast<double>(dim));
    const float* offsets = a.offsets[part] ? a.offsets[part] + within : nullptr;
    convolve_head(a, step, {dim, first, a.taps[part] + within * kStateTaps, offsets, length}, out + at);
    if (part == 2 && simt::lane() == 0) make_gates(a, step.row, head, out + gate);
    if (step.input >= 0) {
      float *column = a.columns + step.input * a.channels + first, *update = a.updates + step.input * updates;
      const float* own = state_column(a, step.columns[0]) + first;
      for (std::int64_t d = simt::lane(); d < dim; d += simt::kWarp) {
        column[d] = own[d];
        if (part > 0) update[at + d] = out[at + d];
      }
      if (part == 2 && simt::lane() == 0) update[gate] = out[gate], update[gate + a.heads] = out[gate + a.heads];
    }
  }
  if (step.keep < 0) return;
  for (int back = 0; back < 3; ++back) {
    const float* column = state_column(a, step.columns[back]);
    float* kept = a.columns + (a.inputs + 3 * step.keep + 2 - back) * a.channels + first;
    for (std::int64_t d = simt::lane(); d < dim; d += simt::kWarp) kept[d] = column ? column[first + d] : 0.0f;
  }
}

/// A step for one column of a head's state; the elements of a column are kStateColumns floats apart.
struct StateColumnStep {
  const float *k, *q;
  float v, decay, strength;

  /// What the rule adds, times the key, to the state before (null: zeros).
  YAMATA_DEVICE float change(const float* before, std::int64_t dim) const {
    float sums[kStateSums];
    for (std::int64_t i = 0; i < dim; i += kStateSums) {
      YAMATA_UNROLL
      for (int p = 0; p < kStateSums; ++p) {
        const float decayed = (before ? before[(i + p) * kStateColumns] : 0.0f) * decay;
        sums[p] = i == 0 ? decayed * k[p] : simt::fma(decayed, k[i + p], sums[p]);
      }
    }
    return (v - ((sums[0] + sums[1]) + (sums[2] + sums[3]))) * strength;
  }

  /// The state after it; returns the sum of it times the query.
  YAMATA_DEVICE float update(const float* before, float change, float* after, std::int64_t dim) const {
    float sums[kStateSums] = {};
    for (std::int64_t i = 0; i < dim; i += kStateSums) {
      YAMATA_UNROLL
      for (int p = 0; p < kStateSums; ++p) {
        const std::int64_t at = (i + p) * kStateColumns;
        const float value = simt::fma(k[i + p], change, (before ? before[at] : 0.0f) * decay);
        after[at] = value;
        sums[p] = simt::fma(value, q[i + p], sums[p]);
      }
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
};

/// A thread for each column of a state. No thread reads what another writes.
template <bool kScan>
YAMATA_KERNEL void YAMATA_BOUNDS(simt::kWarp) apply_rule(const DeltaRuleArgs a) {
  const std::int64_t columns = a.head_begin * a.dim + static_cast<std::int64_t>(simt::block_x()) * simt::kWarp + simt::thread();
  if (!simt::within(columns, a.head_end * a.dim)) return;
  const std::int64_t head = columns / a.dim, place = columns / kStateColumns * kStateColumns * a.key_dim + columns % kStateColumns;
  const std::int64_t in_layer = a.first_head + head;
  const std::int64_t key = ((a.cyclic ? in_layer % a.layer_keys : in_layer / a.sharing) - a.first_key_head) * a.key_dim;
  const std::int64_t values = a.heads * a.dim, state = values * a.key_dim, keys = a.key_heads * a.key_dim;
  const std::int64_t updates = keys + values + 2 * a.heads, gates = keys + values + head;
  float* const own = simt::shared<float>() + simt::thread() / kStateColumns * a.key_dim * kStateColumns + simt::thread() % kStateColumns;
  const float* current = own;
  for (std::int64_t s = 0; s < a.step_count; ++s) {
    const DeviceStep step = a.steps[s];
    const bool here = step.row >= 0;
    const float* inputs = here ? a.inputs + step.row * (updates + keys) : a.updates + step.input * updates;
    if (step.load == DeviceStep::kZero) current = nullptr;
    if (step.load >= 0)
      current = step.load < a.states_kept ? a.states + step.load * state + place : a.aside + (step.load - a.states_kept) * state + place;
    float* const after = step.keep >= 0    ? a.states + step.keep * state + place
                         : step.aside >= 0 ? a.aside + step.aside * state + place
                                           : own;
    const StateColumnStep one{inputs + key, inputs + (here ? updates + key : key), inputs[keys + columns], inputs[gates],
                              inputs[gates + a.heads]};
    const float change = kScan ? one.v * one.strength : one.change(current, a.key_dim);
    const float read = one.update(current, change, after, a.key_dim);
    if (here) a.out[step.row * values + columns] = kScan ? simt::fma(a.skip[head], one.v, read) : read;
    current = after;
  }
}

/// A channel of the convolution's columns, by the numbers of StateStep: an input times its gate.
YAMATA_DEVICE float gated_column(const GatedConvolutionArgs& a, std::int32_t column, std::int64_t channel) {
  if (column >= 0) return a.columns[column * a.channels + channel];
  if (column == DeviceStep::kZero) return 0.0f;
  const float* row = a.x + (DeviceStep::kZero - 1 - column) * 3 * a.channels + channel;
  return row[0] * row[2 * a.channels];
}

/// A thread for a channel in one step.
YAMATA_KERNEL void YAMATA_BOUNDS(simt::kWarp) convolve_gated(const GatedConvolutionArgs a) {
  const std::int64_t channel = a.begin + static_cast<std::int64_t>(simt::block_x()) * simt::kWarp + simt::thread();
  if (!simt::within(channel, a.end)) return;
  const DeviceStep step = a.steps[simt::block_y()];
  float columns[kStateTaps];
  YAMATA_UNROLL
  for (int back = 0; back < kStateTaps; ++back) columns[back] = gated_column(a, step.columns[back], channel);
  if (step.row >= 0) {
    const float* taps = a.taps + channel * a.tap_count;
    float sum = 0;
    YAMATA_UNROLL
    for (int back = kStateTaps - 1; back >= 0; --back) {
      const std::int64_t tap = a.tap_count - 1 - back;
      if (tap >= 0) sum = tap == 0 ? taps[tap] * columns[back] : simt::fma(taps[tap], columns[back], sum);
    }
    a.out[step.row * a.channels + channel] = a.x[(step.row * 3 + 1) * a.channels + channel] * sum;
    if (step.input >= 0) a.columns[step.input * a.channels + channel] = columns[0];
  }
  if (step.keep < 0) return;
  YAMATA_UNROLL
  for (int back = 0; back < kStateTaps - 1; ++back)
    a.columns[(a.inputs + (kStateTaps - 1) * step.keep + kStateTaps - 2 - back) * a.channels + channel] = columns[back];
}

/// One warp for a head of a row.
YAMATA_KERNEL void YAMATA_BOUNDS(simt::kWarp) gate_head(const HeadGateArgs a) {
  const std::int64_t row = simt::block_y(), head = a.begin + simt::block_x();
  float* x = a.x + (row * a.heads + head) * a.dim;
  const float* gate = a.gate + row * a.gate_row + head * a.gate_head;
  float factor = 0;
  if (a.norm) {
    double squares = 0;
    for (std::int64_t block = 0; block < divide_up(a.dim, simt::kWarp); ++block) {
      const std::int64_t d = block * simt::kWarp + simt::lane();
      squares += static_cast<double>(block_square(simt::within(d, a.dim) ? x[d] : 0.0f));
    }
    factor = inverse_rms(squares, a.dim, a.epsilon);
  }
  for (std::int64_t d = simt::lane(); d < a.dim; d += simt::kWarp) {
    const float value = a.norm ? x[d] * factor * a.norm[d] : x[d];
    x[d] = a.silu ? activated(Activation::kSilu, gate[d], value, true) : by_sigmoid(value, gate[d]);
  }
}

/// One warp for a head of a row.
YAMATA_KERNEL void YAMATA_BOUNDS(simt::kWarp) ungate_head(const UngateArgs a) {
  const std::int64_t head = static_cast<std::int64_t>(simt::block_y()) * a.heads + a.begin + simt::block_x();
  for (std::int64_t d = simt::lane(); d < a.dim; d += simt::kWarp) a.out[head * a.dim + d] = a.x[2 * head * a.dim + d];
}

void state_inputs(const StateInputsArgs& a, Stream stream) {
  const std::int64_t heads = 2 * (a.key_end - a.key_begin) + a.head_end - a.head_begin;
  if (heads > 0 && a.step_count > 0)
    simt::launch(&prepare_states, {static_cast<unsigned>(heads), static_cast<unsigned>(a.step_count)}, simt::kWarp, 0, stream, a);
}

template <bool kScan>
void launch_rule(const DeltaRuleArgs& a, Stream stream) {
  const auto blocks = static_cast<unsigned>(divide_up((a.head_end - a.head_begin) * a.dim, simt::kWarp));
  const std::size_t shared = static_cast<std::size_t>(simt::kWarp * a.key_dim) * sizeof(float);
  if (blocks > 0) simt::launch(&apply_rule<kScan>, {blocks, 1}, simt::kWarp, shared, stream, a);
}

void delta_rule(const DeltaRuleArgs& a, Stream stream) { launch_rule<false>(a, stream); }

void scan_states(const DeltaRuleArgs& a, Stream stream) { launch_rule<true>(a, stream); }

void gated_convolution(const GatedConvolutionArgs& a, Stream stream) {
  const auto blocks = static_cast<unsigned>(divide_up(a.end - a.begin, simt::kWarp));
  if (blocks > 0 && a.step_count > 0)
    simt::launch(&convolve_gated, {blocks, static_cast<unsigned>(a.step_count)}, simt::kWarp, 0, stream, a);
}

void gate_heads(const HeadGateArgs& a, Stream stream) {
  const simt::Grid grid{static_cast<unsigned>(a.end - a.begin), static_cast<unsigned>(a.rows)};
  if (grid.x > 0 && grid.y > 0) simt::launch(&gate_head, grid, simt::kWarp, 0, stream, a);
}

void ungate(const UngateArgs& a, Stream stream) {
  const simt::Grid grid{static_cast<unsigned>(a.end - a.begin), static_cast<unsigned>(a.rows)};
  if (grid.x > 0 && grid.y > 0) simt::launch(&ungate_head, grid, simt::kWarp, 0, stream, a);
}

}  // namespace
}  // namespace yamata::cuda
