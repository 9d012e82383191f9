#pragma once
// The kernel seam of devices: one table of launchers per way to compile the kernels. Each puts its work into a stream and returns. Bits are
// those of the CPU's kernels (node/cpu/kernels/kernels.hpp says in which order is summed). All pointers are the device's. Valid as C++17.
#include <cstddef>
#include <cstdint>

#include "node/activation.hpp"
#include "node/cuda/launch.hpp"
#include "node/highest.hpp"
#include "node/tensor_type.hpp"

namespace yamata::cuda {

using Stream = simt::LaunchSink*;

/// Activations of some tokens, quantized in blocks of 32.
struct DeviceRows {
  std::int8_t* values = nullptr;      ///< [rows][blocks][32]
  float* scales = nullptr;            ///< [rows][blocks]
  std::int16_t* sub_sums = nullptr;   ///< [rows][blocks][2]: sums of the values of each half
  std::int64_t blocks = 0, rows = 0;  ///< the last block of a row is filled up with zeros

  static constexpr std::int64_t kBlockBytes = 32 + 4 + 4;
};

/// From the file's rows to panels of 32 rows; of floats, to rows of the order in which 16 lanes read them.
struct PackArgs {
  const std::byte* source;  ///< the file's rows, `row_bytes` apart
  std::size_t row_bytes;
  std::int64_t begin, end, cols;  ///< begin: of quantized rows a multiple of 32
  std::byte* panels;              ///< of all rows
};

constexpr int kMostParts = 3;
/// The products of one input with up to three matrices of one type: y[t * ldy + r] = (or, with add, +=) W[r] * x[t].
struct ProductArgs {
  struct Part {
    const std::byte* panels;
    std::int64_t begin, end;  ///< rows
    float* y;
    std::int64_t ldy;
  } parts[kMostParts];
  int part_count;
  std::size_t row_bytes;  ///< of quantized weights, packed
  std::int64_t cols;
  const float* x;  ///< [tokens][cols], for weights that are floats
  DeviceRows x8;   ///< for others
  std::int64_t tokens;
  bool add;
};
constexpr std::int64_t kFewTokens = 16;  ///< more are multiplied on tensor cores

/// x, x / rms(x) * norm or activation(x) * up: quantized, and in floats, where there is room for it.
struct InputArgs {
  const float *x, *norm, *up;
  std::int64_t x_stride, rows, cols;
  float epsilon;
  float* floats;          ///< [rows][cols], or null
  DeviceRows x8;          ///< or null
  Activation activation;  ///< where there is no norm
};

/// Own columns in blocks that are not divided by anything, as they are sent.
struct EncodeArgs {
  const float *x, *norm, *up;
  std::int64_t x_stride, rows, cols;  ///< cols: the own
  std::byte* blocks;                  ///< EncodedBlock: [rows][row_blocks], from the first own one on
  float* squares;                     ///< likewise, where there is a norm
  std::int64_t row_blocks;            ///< the member's, of which several units may write some each
  Activation activation;              ///< where there is no norm
};

/// All members' blocks, divided by the root mean square of the whole row.
struct DecodeArgs {
  struct Member {
    const std::byte* blocks;
    const float* squares;
    std::int64_t before, count;  ///< its first block in a row, its blocks
  };
  const Member* members;
  int member_count;
  bool normed;
  std::int64_t cols;
  float epsilon;
  DeviceRows x8;
};

/// to[row][0..cols) = activation(from[row][0..cols)) * up, rows so far apart.
struct CopyArgs {
  const float *from, *up;
  std::int64_t from_stride, rows, cols;
  float* to;
  std::int64_t to_stride;
  Activation activation = Activation::kNone;
};

/// y[row][begin..end) += bias[begin..end)
struct BiasArgs {
  float* y;
  std::int64_t stride, rows, begin, end;
  const float* bias;
};

/// NormOp on rows of which all columns are here.
struct NormArgs {
  const float* x;
  std::int64_t x_stride, rows, cols;
  const float *weight, *bias;  ///< bias: of a centered one, or null
  bool centered;
  float epsilon;
  float* out;
  std::int64_t out_begin, out_cols, out_stride;
};

/// AddOp; of a mixture of experts, whose `weights` there are, a row adds up `used` rows of `from`, whose numbers are in `pairs`.
struct AddArgs {
  float* to;
  const float* from;
  std::int64_t rows, cols, to_stride, from_stride;
  float scale;
  const float *gate, *weights;
  const std::int32_t* pairs;
  std::int64_t used;
};

/// ScaleOp.
struct ScaleArgs {
  float* x;
  std::int64_t n;
  float scale, cap;
};

/// HighestOp.
struct HighestArgs {
  const float* x;
  std::int64_t rows, cols, begin, end;  ///< columns begin to end are compared
  Highest* out;
};

/// out[i] = the `dim` floats from x + rows[i] * stride on, or, with `parts`, from so many `each` behind that.
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
  float epsilon;
  const float* q_rotary = nullptr;  ///< where the rotary_dim first floats of each head of each row come from, or null
  std::int64_t q_rotary_stride = 0;
};

/// Attention of some rows over segments [first, last) of what each sees; partial results as AttentionPartials has them.
struct AttentionArgs {
  const float* q;
  std::int64_t rows, q_heads, kv_heads, head_dim, group, before;
  std::int64_t head_begin, head_end;  ///< query heads that are computed
  float scale;
  const std::int64_t* begins;  ///< [rows + 1]: a row sees cells[begins[row]] up to cells[begins[row + 1]]
  const std::int32_t* cells;
  void* const* cache_k;
  void* const* cache_v;
  TensorType k_type, v_type;
  std::int64_t first, last;
  float* out;           ///< [segment][row][q_heads][head_dim], segment 0 being `first`
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

/// A flag at a meeting, in memory that the host maps, too.
struct FlagArgs {
  std::uint32_t* flag;
};

/// What is compiled for each quantized format, and for each kind of floats.
struct FormatKernels {
  void (*pack)(const PackArgs&, Stream);
  void (*multiply)(const ProductArgs&, Stream);
};

struct DeviceKernels {
  const FormatKernels* formats[kTensorTypeCount];  ///< null: not a type
  void (*make_input)(const InputArgs&, Stream);
  void (*encode)(const EncodeArgs&, Stream);
  void (*decode)(const DecodeArgs&, Stream);
  void (*copy)(const CopyArgs&, Stream);
  void (*gather)(const GatherArgs&, Stream);
  void (*add_bias)(const BiasArgs&, Stream);
  void (*norm)(const NormArgs&, Stream);
  void (*add)(const AddArgs&, Stream);
  void (*scale)(const ScaleArgs&, Stream);
  void (*highest)(const HighestArgs&, Stream);
  void (*store)(const StoreArgs&, Stream);
  void (*attend)(const AttentionArgs&, Stream);
  void (*merge)(const MergeArgs&, Stream);
  void (*raise_flag)(const FlagArgs&, Stream);  ///< becomes 1: the host sees what was written before
  void (*await_flag)(const FlagArgs&, Stream);  ///< the stream goes on when it is 1, and sees what the host has written before
};

// Both may be linked into one program.
extern const DeviceKernels kCudaKernels, kEmulatedKernels;

}  // namespace yamata::cuda
