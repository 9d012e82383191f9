#pragma once
// What a layer is made of: operations on f32 activations, described without saying who computes them.
// All pointers outlive the run. Rows are tokens.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "node/group_exchange.hpp"
#include "node/tensor_type.hpp"

namespace yamata {

class UnitMeeting;

/// Some of the things that an operation computes, of those it can be cut by: from `begin` up to `end`, or all after it.
struct OpRange {
  std::int64_t begin = 0, end = -1;
  std::int64_t end_of(std::int64_t count) const { return end < 0 ? count : end; }
  std::int64_t count_of(std::int64_t count) const { return end_of(count) - begin; }
  friend bool operator==(const OpRange&, const OpRange&) = default;
};

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

/// Rows of which each member of a group of ranks has some columns, that is: member m those from cuts[m] to cuts[m + 1], which are multiples
/// of 32 or the end. `group` null: this unit has all. A member may itself be several units, each with a `part` of the member's columns, cut
/// likewise.
struct SharedColumns {
  GroupExchange* group = nullptr;
  std::span<const std::int64_t> cuts{};
  OpRange part{};  ///< of the columns of all members

  std::int64_t begin() const { return !group ? 0 : part.end < 0 ? cuts[static_cast<std::size_t>(group->own())] : part.begin; }
  std::int64_t end(std::int64_t cols) const {
    return !group ? cols : part.end < 0 ? cuts[static_cast<std::size_t>(group->own()) + 1] : part.end;
  }
};

/// Products of one input with up to three matrices; it is made, and quantized, once for all. What an RMSNorm gives is quantized before the
/// division by the root mean square, which multiplies the blocks' scales.
struct LinearOp {
  struct Part {
    const Matrix* weight = nullptr;
    float* y = nullptr;       ///< [rows][weight rows]
    std::int64_t stride = 0;  ///< floats from one row of y to the next; 0: as many as the weight has rows
    OpRange outputs{};        ///< rows of the weight that are multiplied with
  };
  const float* x;  ///< [rows][own columns]
  std::int64_t rows, cols;
  std::array<Part, 3> parts;
  bool add;  ///< y += instead of y = (the residual stream)

  // The input is x, or, where these are given, x / rms(x) * norm or silu(x) * up.
  const float* norm = nullptr;  ///< [cols]
  float epsilon = 0;
  const float* up = nullptr;  ///< as x
  float* input = nullptr;     ///< [rows][cols], room for it where it is made and a matrix of floats, or nothing but it, is asked for;
                              ///< with `up`, and all columns here, this may be x
  std::int64_t x_stride = 0;  ///< floats from one row of x, or up, to the next; 0: as many as there are own columns
  SharedColumns share{};      ///< who has which columns of x, and up; the members meet to make the input
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
  OpRange queries{}, keys{};  ///< heads that are rotated and stored
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
  float* out;               ///< [rows][q_heads * head_dim]
  std::int64_t group = 0;   ///< query heads that share a key/value head; 0: q_heads / kv_heads
  std::int64_t before = 0;  ///< of the first key/value head's query heads, those that are not here
  OpRange heads{};          ///< query heads that are computed

  std::int64_t heads_per_kv() const { return group > 0 ? group : q_heads / kv_heads; }
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

/// The members of a group give each other their columns of x: afterwards each has all.
struct AllGatherOp {
  float* x;  ///< [rows][cols]
  std::int64_t rows, cols;
  SharedColumns share;
  OpRange brings{};  ///< rows that are put into x; the others' columns of the rest stay where they came
};

/// Brings part of a mapped file into memory.
struct ReadOp {
  std::span<const std::byte> bytes;
};

/// Packs a matrix for the unit that is to multiply with it.
struct PackOp {
  const Matrix* matrix;
  std::byte* to;  ///< the unit's packed_bytes of it
  OpRange rows{};
};

/// Waits for the other units that compute lists together: then each sees what the others have written. All leave the list here where one of
/// them wants to.
struct MeetOp {
  UnitMeeting* meeting;
  int own;  ///< number of this unit among them
};

using Op =
    std::variant<EmbedOp, LinearOp, StoreOp, AttentionOp, AttentionPartOp, MergeAttentionOp, GatherOp, AllGatherOp, ReadOp, PackOp, MeetOp>;

}  // namespace yamata
