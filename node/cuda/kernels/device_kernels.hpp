#pragma once
// The interface of device kernels: tables of launchers, one for GPUs and one for the emulated device. Each launches into a stream and
// returns. The bits are those of the CPU's kernels (node/cpu/kernels/kernels.hpp). All pointers are the device's. Valid as C++17.
#include <cstddef>
#include <cstdint>

#include "node/activation.hpp"
#include "node/cuda/kernels/launch.hpp"
#include "node/highest.hpp"
#include "node/tensor_type.hpp"

namespace yamata::cuda {

using Stream = simt::LaunchSink*;

/// Activations of some tokens, quantized in blocks of 32.
struct DeviceRows {
  std::int8_t* values = nullptr;      ///< [rows][blocks][32]
  float* scales = nullptr;            ///< [rows][blocks]
  std::int16_t* sub_sums = nullptr;   ///< [rows][blocks][2]: sums of the values of each half
  std::int64_t blocks = 0, rows = 0;  ///< the last block of a row is padded with zeros

  static constexpr std::int64_t kBlockBytes = 32 + 4 + 4;
};

/// Packs the file's rows into panels of 32 rows; floating-point rows into the order in which 16 lanes read them.
struct PackArgs {
  const std::byte* source;  ///< the file's rows, `row_bytes` apart
  std::size_t row_bytes;
  std::int64_t begin, end, cols;  ///< begin: a multiple of 32, if the rows are quantized
  std::byte* panels;              ///< of all rows
};

constexpr int kMaxParts = 3;
/// The products of one input with up to three matrices of one type: y[t * ldy + r] = (or, with add, +=) W[r] * x[t].
struct ProductArgs {
  struct Part {
    const std::byte* panels;
    std::int64_t begin, end;  ///< rows
    float* y;
    std::int64_t ldy;
  } parts[kMaxParts];
  int part_count;
  std::size_t row_bytes;  ///< of quantized weights, packed
  std::int64_t cols;
  const float* x;  ///< [tokens][cols], for floating-point weights
  DeviceRows x8;   ///< for quantized weights
  std::int64_t tokens;
  bool add;
};
constexpr std::int64_t kFewTokens = 16;  ///< more tokens are multiplied on tensor cores

/// x, x / rms(x) * norm or activation(x) * up: quantized, and as floats, each if its destination is not null.
struct InputArgs {
  const float *x, *norm, *up;
  std::int64_t x_stride, rows, cols;
  float epsilon;
  float* floats;          ///< [rows][cols], or null
  DeviceRows x8;          ///< or null
  Activation activation;  ///< where there is no norm
};

/// A member's own columns as blocks for an exchange, before the division by the root mean square.
struct EncodeArgs {
  const float *x, *norm, *up;
  std::int64_t x_stride, rows, cols;  ///< cols: its own
  std::byte* blocks;                  ///< EncodedBlock: [rows][row_blocks], from the first own one on
  float* squares;                     ///< likewise, if there is a norm
  std::int64_t row_blocks;            ///< blocks per row of the member; several units may each write some of them
  Activation activation;              ///< where there is no norm
};

/// Decodes all members' blocks, and divides them by the root mean square of the whole row.
struct DecodeArgs {
  struct Member {
    const std::byte* blocks;
    const float* squares;
    std::int64_t before, count;  ///< its first block in a row; its number of blocks
  };
  const Member* members;
  int member_count;
  bool normed;
  std::int64_t cols;
  float epsilon;
  DeviceRows x8;
};

/// to[row][0..cols) = activation(from[row][0..cols)) * up, with these strides.
struct CopyArgs {
  const float *from, *up;
  std::int64_t from_stride, rows, cols;
  float* to;
  std::int64_t to_stride;
  Activation activation = Activation::kNone;
};

/// y[row][begin..end) = *scale y[row][begin..end) + bias[begin..end)
struct BiasArgs {
  float* y;
  std::int64_t stride, rows, begin, end;
  const float *bias = nullptr, *scale = nullptr;  ///< null: without
};

/// NormOp, on whole rows.
struct NormArgs {
  const float* x;
  std::int64_t x_stride, rows, cols;
  const float *weight, *bias;  ///< bias: of a LayerNorm, or null
  bool centered;
  float epsilon;
  float* out;
  std::int64_t out_begin, out_cols, out_stride;
  std::int64_t weight_rows = 1;
};

/// ResizeOp.
struct ResizeArgs {
  const float* from;
  float* to;
  std::int64_t rows, from_cols, to_cols;
};

/// AddOp. With `weights` of experts, a row is the sum of `used` rows of `from`, whose numbers are in `pairs`.
struct AddArgs {
  float* to;
  const float* from;
  std::int64_t rows, cols, to_stride, from_stride;
  float scale;
  const float *gate, *weights;  ///< without weights but with pairs, they are 1
  const std::int32_t* pairs;
  std::int64_t used, each;
};

/// ScaleOp.
struct ScaleArgs {
  float* x;
  std::int64_t n;
  float scale, cap;
  // With experts: weights [tokens][used], pairs [tokens][used], tokens [pairs].
  const float* weights = nullptr;
  const std::int32_t *pairs = nullptr, *tokens = nullptr;
  std::int64_t used = 0, cols = 0;
};

/// HighestOp.
struct HighestArgs {
  const float* x;
  std::int64_t rows, cols, begin, end;  ///< compares columns begin to end
  Highest* out;
};

/// out[i] = `dim` floats from x + rows[i] * stride on; with `parts`, from x + rows[i] * stride + parts[i] * each on.
struct GatherArgs {
  const float* x;
  std::int64_t dim, count;
  const std::int32_t* rows;
  float* out;
  std::int64_t stride;
  const std::int32_t* parts = nullptr;
  std::int64_t each = 0;
};

/// StoreOp (node/op.hpp) on the device.
struct StoreArgs {
  float *q, *k;
  const float* v;  ///< null: only keys are stored
  std::int64_t rows, q_heads, kv_heads, head_dim, rotary_dim;
  std::int64_t q_begin, q_end, kv_begin, kv_end;  ///< heads
  bool interleaved;
  const float* cos_sin;
  const std::int32_t* cells;
  void* const* cache_k;
  void* const* cache_v;
  TensorType k_type, v_type;
  const float *q_norm, *k_norm;  ///< [head_dim], or null
  bool unit_norm, norm_last;
  const float* q_scale;  ///< [rows], or null
  float epsilon;
  const float* q_rotary = nullptr;  ///< source of the first rotary_dim floats of each head, or null
  std::int64_t q_rotary_stride = 0;
};

/// Attention of some rows over segments [first, last) of their visible cells; partial results as in AttentionPartials.
struct AttentionArgs {
  const float* q;
  std::int64_t rows, q_heads, kv_heads, head_dim, group, before;
  std::int64_t head_begin, head_end;  ///< query heads to compute
  float scale;
  const std::int64_t* begins;  ///< [rows + 1]: a row sees cells[begins[row]] up to cells[begins[row + 1]]
  const std::int32_t* cells;
  void* const* cache_k;
  void* const* cache_v;
  TensorType k_type, v_type;
  std::int64_t first, last;
  float* out;           ///< [segment - first][row][q_heads][head_dim]
  float *peak, *total;  ///< [segment][row][q_heads]
  float softcap;        ///< 0: none
};

/// out[row][q_heads][head_dim] from the partial results of all segments.
struct MergeArgs {
  std::int64_t rows, q_heads, head_dim, head_begin, head_end;
  const std::int64_t* begins;
  const float *partial, *peak, *total;
  float* out;
  const float* sinks;  ///< [q_heads], or null
};

/// StateStep (node/state_op.hpp).
struct DeviceStep {
  static constexpr std::int32_t kZero = -2;
  std::int32_t row, input, load, keep, aside;
  std::int32_t columns[4];
};

/// StateInputsOp, for key heads and heads from `begin` up to `end`.
struct StateInputsArgs {
  const float* x;
  std::int64_t channels;
  const float* gates;
  std::int64_t gates_row, gates_before, gates_each, gates_step, gates_decay;
  std::int64_t heads, key_heads, dim, key_dim;
  std::int64_t scan;  ///< 0: no
  std::int64_t key_begin, key_end, head_begin, head_end;
  const float *taps[3], *offsets[3];
  const float *rate, *bias;
  const DeviceStep* steps;
  std::int64_t step_count, inputs;
  float *columns, *updates, *out;
};

/// DeltaRuleOp, ScanOp.
struct DeltaRuleArgs {
  const float *inputs, *updates;
  float *states, *aside;
  const DeviceStep* steps;
  std::int64_t step_count, states_kept;
  std::int64_t heads, key_heads, dim, key_dim;
  std::int64_t first_head, first_key_head, layer_keys, sharing;
  std::int64_t cyclic;  ///< 0: no
  std::int64_t head_begin, head_end;
  float* out;
  const float* skip;  ///< of a scan
};

/// GatedConvolutionOp.
struct GatedConvolutionArgs {
  const float *x, *taps;
  const DeviceStep* steps;
  std::int64_t step_count, inputs;
  std::int64_t channels, tap_count;
  std::int64_t begin, end;  ///< channels
  float *columns, *out;
};

/// FarConvolutionOp.
struct FarConvolutionArgs {
  const float* x;
  std::int64_t channels;
  const float* taps;
  std::int64_t tap_count, dilation;
  const DeviceStep* steps;
  std::int64_t step_count, inputs, far_kept;
  const std::int32_t* far_columns;
  float* columns;
  float* out;
};

/// LikenessOp.
struct LikenessArgs {
  const float *a, *b;
  std::int64_t rows, cols;
  float scale;
  float* out;
};

/// HeadGateOp.
struct HeadGateArgs {
  float* x;
  std::int64_t rows, heads, dim;
  const float* gate;
  std::int64_t gate_row, gate_head;
  const float* norm;  ///< [dim], or null
  float epsilon;
  std::int64_t begin, end;
  std::int64_t silu;  ///< 0: no
};

/// UngateOp.
struct UngateArgs {
  const float* x;
  std::int64_t rows, heads, dim;
  float* out;
  std::int64_t begin, end;
};

/// Scores of PickOp: of row r, for cells[begins[r]] up to cells[begins[r + 1]], from scores + r * stride on.
struct IndexScoreArgs {
  const float *q, *weights;
  std::int64_t weight_row, rows, heads, dim;  ///< weight_row: floats between the weights of rows
  const std::int64_t* begins;
  const std::int32_t* cells;
  const void* cache;
  TensorType type;
  float* scores;
  std::int64_t stride, most;  ///< most: cells of a row
};

/// The choice of PickOp: those of row r are written from to[to_begins[r]] up to to[to_begins[r + 1]].
struct PickArgs {
  const float* scores;
  std::int64_t stride, rows;
  const std::int64_t* begins;  ///< of scores
  std::int64_t block;
  const std::int64_t* all_begins;  ///< of `cells`: all that a row sees
  const std::int32_t* cells;
  const std::int64_t* to_begins;
  std::int32_t* to;
};

/// PoolOp: of row r, cells[begins[r]] up to cells[begins[r + 1]].
struct PoolArgs {
  const void* cache;
  TensorType type;
  std::int64_t rows, dim;
  const std::int64_t* begins;
  const std::int32_t* cells;
  float* out;
};

/// A flag of a barrier, in mapped memory.
struct FlagArgs {
  std::uint32_t* flag;
};

/// The kernels of a quantized format, or of a floating-point type.
struct FormatKernels {
  void (*pack)(const PackArgs&, Stream);
  void (*multiply)(const ProductArgs&, Stream);
};

struct DeviceKernels {
  const FormatKernels* formats[kTensorTypeCount];  ///< null: the type has none
  void (*make_input)(const InputArgs&, Stream);
  void (*encode)(const EncodeArgs&, Stream);
  void (*decode)(const DecodeArgs&, Stream);
  void (*copy)(const CopyArgs&, Stream);
  void (*gather)(const GatherArgs&, Stream);
  void (*add_bias)(const BiasArgs&, Stream);
  void (*norm)(const NormArgs&, Stream);
  void (*resize)(const ResizeArgs&, Stream);
  void (*add)(const AddArgs&, Stream);
  void (*scale)(const ScaleArgs&, Stream);
  void (*highest)(const HighestArgs&, Stream);
  void (*store)(const StoreArgs&, Stream);
  void (*attend)(const AttentionArgs&, Stream);
  void (*merge)(const MergeArgs&, Stream);
  void (*state_inputs)(const StateInputsArgs&, Stream);
  void (*delta_rule)(const DeltaRuleArgs&, Stream);
  void (*scan)(const DeltaRuleArgs&, Stream);
  void (*gated_convolution)(const GatedConvolutionArgs&, Stream);
  void (*convolve_far)(const FarConvolutionArgs&, Stream);
  void (*compare_rows)(const LikenessArgs&, Stream);
  void (*gate_heads)(const HeadGateArgs&, Stream);
  void (*ungate)(const UngateArgs&, Stream);
  void (*index_scores)(const IndexScoreArgs&, Stream);
  void (*pick)(const PickArgs&, Stream);
  void (*pool)(const PoolArgs&, Stream);
  void (*raise_flag)(const FlagArgs&, Stream);  ///< sets it to 1, with release semantics for the host
  void (*await_flag)(const FlagArgs&, Stream);  ///< waits until it is 1, with acquire semantics
};

// Both may be linked into one program.
extern const DeviceKernels kCudaKernels, kEmulatedKernels;

}  // namespace yamata::cuda
