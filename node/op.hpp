#pragma once
// What a layer is made of: operations on f32 activations, described without saying who computes them.
// All pointers outlive the run. Rows are tokens.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "node/tensor_type.hpp"

namespace yamata {

/// A weight matrix: `rows` outputs of `cols` inputs each.
struct Matrix {
  TensorType type = TensorType::F32;
  std::int64_t rows = 0, cols = 0;
  const std::byte* data = nullptr;  ///< as it lies in the file
  std::size_t row_bytes = 0;
  const std::byte* packed = nullptr;  ///< as the compute unit wants it, where it has been packed
};

/// out[t] = table[tokens[t]]
struct EmbedOp {
  const Matrix* table;
  std::span<const std::int32_t> tokens;
  float* out;  ///< [tokens][cols]
};

/// Products of one input with up to three matrices; it is made, and quantized, once for all.
struct LinearOp {
  struct Part {
    const Matrix* weight = nullptr;
    float* y = nullptr;  ///< [rows][weight rows]
  };
  const float* x;  ///< [rows][cols]
  std::int64_t rows, cols;
  std::array<Part, 3> parts;
  bool add;  ///< y += instead of y = (the residual stream)

  // The input is x, or, where these are given, x / rms(x) * norm or silu(x) * up.
  const float* norm = nullptr;  ///< [cols]
  float epsilon = 0;
  const float* up = nullptr;  ///< [rows][cols]
  float* input = nullptr;     ///< [rows][cols], where it is made; with `up` this may be x
};

/// Rotates queries and keys by position and puts keys and values into the cache.
struct StoreOp {
  float* q;        ///< [rows][q_heads * head_dim], rotated in place
  float* k;        ///< [rows][kv_heads * head_dim]
  const float* v;  ///< [rows][kv_heads * head_dim]
  std::int64_t rows, q_heads, kv_heads, head_dim, rotary_dim;
  bool interleaved;      ///< pairs (2i, 2i+1), else (i, i + rotary_dim/2)
  const float* cos_sin;  ///< [rows][rotary_dim/2][2]
  const std::int32_t* cells;
  void* const* cache_k;  ///< [kv_heads] -> [cell][head_dim]
  void* const* cache_v;
  TensorType k_type, v_type;  ///< F32, F16 or, where head_dim is a multiple of 32, Q8_0
};

/// Attention over the visible cells of each row.
struct AttentionOp {
  const float* q;  ///< [rows][q_heads * head_dim]
  std::int64_t rows, q_heads, kv_heads, head_dim;
  float scale;
  std::span<const std::int32_t> const* visible;  ///< [rows], position order
  void* const* cache_k;
  void* const* cache_v;
  TensorType k_type, v_type;
  float* out;  ///< [rows][q_heads * head_dim]
};

/// Cells of a segment: attention is computed in segments of a row's visible cells, in position order, whose results are merged in that
/// order.
inline constexpr std::int64_t kAttentionSegment = 256;

/// Results of attention over single segments, `first` up to `last`, before they are merged and divided by their total. A row that sees no
/// cell of a segment leaves its place as it was.
struct AttentionPartials {
  std::int64_t first = 0, last = 0;
  float* out;           ///< [segment][row][q_heads][head_dim], segment 0 being `first`
  float *peak, *total;  ///< [segment][row][q_heads]: the greatest score, and the sum of exp(score - peak)
};

/// Some segments of an attention, whose `out` is not written: one share of those who hold the cache or the heads together.
struct AttentionPartOp {
  AttentionOp attention;
  AttentionPartials partials;
};

/// The attention's `out` from the partial results of all its segments, in their order: the same bits as the AttentionOp alone gives. Its
/// cache and queries are not read.
struct MergeAttentionOp {
  AttentionOp attention;
  AttentionPartials partials;  ///< from segment 0 on
};

/// Copies chosen rows together: out[i] = x[rows[i]].
struct GatherOp {
  const float* x;
  std::int64_t dim;
  std::span<const std::int32_t> rows;
  float* out;
};

/// Brings part of a mapped file into memory.
struct ReadOp {
  std::span<const std::byte> bytes;
};

/// Packs a matrix for the unit that is to multiply with it.
struct PackOp {
  const Matrix* matrix;
  std::byte* to;  ///< the unit's packed_bytes of it
};

using Op = std::variant<EmbedOp, LinearOp, StoreOp, AttentionOp, AttentionPartOp, MergeAttentionOp, GatherOp, ReadOp, PackOp>;

}  // namespace yamata
