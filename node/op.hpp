#pragma once
// The operations of a layer, on f32 activations, independent of the unit that computes them. All pointers must outlive the run. Rows are
// tokens.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "node/activation.hpp"
#include "node/group_exchange.hpp"
#include "node/highest.hpp"
#include "node/op_range.hpp"
#include "node/state_op.hpp"
#include "node/tensor_type.hpp"

namespace yamata {

class UnitBarrier;

/// A weight matrix: `rows` outputs of `cols` inputs each.
struct Matrix {
  TensorType type = TensorType::F32;
  std::int64_t rows = 0, cols = 0;
  const std::byte* data = nullptr;  ///< in the file's layout
  std::size_t row_bytes = 0;
  const std::byte* packed = nullptr;  ///< in the compute unit's layout, if it has been packed
  const float* scale = nullptr;       ///< a factor of all its weights; null: 1. Not for products that are added to y
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(rows) * row_bytes; }
};

/// out[t] = table[tokens[t]] * scale. Shared out by tokens.
struct EmbedOp {
  const Matrix* table;
  std::span<const std::int32_t> tokens;
  float* out;  ///< [tokens][cols]
  float scale = 1;
};

/// The division of rows' columns among the members of a group of ranks: member m has those from cuts[m] to cuts[m + 1], which are multiples
/// of 32 or the end. `group` null: this unit has all. A member may consist of several units, each with a `part` of the member's columns,
/// divided in the same way.
struct SharedColumns {
  GroupExchange* group = nullptr;
  std::span<const std::int64_t> cuts{};
  OpRange part{};  ///< of the columns of all members

  std::int64_t begin() const { return !group ? 0 : part.end < 0 ? cuts[static_cast<std::size_t>(group->own())] : part.begin; }
  std::int64_t end(std::int64_t cols) const {
    return !group ? cols : part.end < 0 ? cuts[static_cast<std::size_t>(group->own()) + 1] : part.end;
  }
};

/// More experts than any layer has.
inline constexpr std::int64_t kMaxExperts = 1024;

/// The experts chosen by each token. RouterOp writes them, and later operations of the list read them. A pair is a token and one of its
/// experts; pairs are ordered by expert, then by token. Heads with their own matrices are treated as experts that all tokens chose.
struct ExpertChoice {
  std::int64_t experts = 0, used = 0;  ///< in total, and per token
  float* weights = nullptr;            ///< [tokens][used]: weight of each chosen expert's result
  std::int32_t* pairs = nullptr;       ///< [tokens][used]: the pair of a token and its first, second, ... expert
  std::int32_t* tokens = nullptr;      ///< [pairs]: the token of each
  std::int32_t* chosen = nullptr;      ///< [pairs]: the expert of each
  std::int32_t* first = nullptr;       ///< [experts + 1]: where each expert's pairs begin

  bool any() const { return experts > 0; }
};

/// Products of one input with up to six matrices; the input is prepared and quantized once for all. With an RMSNorm, the input is
/// quantized before the division by the root mean square, which is then applied to the blocks' scales. Divided by rows of the matrices.
///
/// With `experts`, rows are pairs. A part's weight is the first of one matrix per expert, all with the same shape and type. A pair is
/// multiplied with its expert's matrix, in one pass over the weights of each chosen expert.
struct LinearOp {
  struct Part {
    const Matrix* weight = nullptr;
    float* y = nullptr;            ///< [rows][weight rows]
    std::int64_t stride = 0;       ///< floats from one row of y to the next; 0: as many as the weight has rows
    const float* bias = nullptr;   ///< [weight rows], added after the product and its scale
    std::int64_t bias_stride = 0;  ///< floats from one expert's bias to the next
    std::int64_t y_each = 0;       ///< not 0, with experts: y has a row per token; in it, expert e's result begins at float e * y_each
    OpRange outputs{};             ///< rows of the weight that are used
  };
  const float* x;  ///< [rows][own columns]
  std::int64_t rows, cols;
  static constexpr std::size_t kMostParts = 6;
  std::array<Part, kMostParts> parts;
  bool add;  ///< y += instead of y = (the residual stream)

  // The input is x, or, if these are given, x / rms(x) * norm or activation(x) * up.
  const float* norm = nullptr;  ///< [cols]
  float epsilon = 0;
  const float* up = nullptr;  ///< as x
  float* input = nullptr;     ///< [rows][cols], memory for the input, if it must be made and is needed in floats: by a matrix of floats, or
                              ///< because there is no matrix; may be x if there is an activation and all columns are here
  std::int64_t x_stride = 0;  ///< floats from one row of x, or up, to the next; 0: as many as there are own columns
  SharedColumns share{};      ///< division of the columns of x and up; the members exchange the input
  Activation activation = Activation::kNone;  ///< if there is no norm
  ExpertChoice experts{};                     ///< the choice of experts; none: one matrix for all rows
  bool x_of_tokens = false;                   ///< with experts: x has a row for each token, not for each pair; then all columns are here
  std::int64_t x_each = 0;                    ///< expert e reads these rows from float e * x_each on
};

/// out = x / rms(x) * weight, or, if `centered` (LayerNorm), (x - mean(x)) / deviation(x) * weight + bias; for the requested columns.
/// Divided by rows. In place if out is x.
struct NormOp {
  const float* x;  ///< [rows][own columns]
  std::int64_t rows, cols;
  std::int64_t x_stride;        ///< floats from one row of x to the next
  const float* weight;          ///< [weight_rows][cols]
  const float* bias = nullptr;  ///< [cols]
  bool centered = false;
  float epsilon;
  float* out;  ///< [rows][out_cols]
  std::int64_t out_begin = 0, out_cols, out_stride;
  SharedColumns share{};         ///< division of the columns of x (at any column); the members exchange data
  std::int64_t weight_rows = 1;  ///< row r has row r % weight_rows of the weights
};

/// to[row] = the first to_cols elements of from[row], with zeros after the last of these. Divided by rows.
struct ResizeOp {
  const float* from;  ///< [rows][from_cols]
  float* to;          ///< [rows][to_cols]
  std::int64_t rows, from_cols, to_cols;
};

/// Adds to the residual stream: to += scale * from; with a gate, (scale * sigmoid(gate)) * from; with experts, scale * the sum of weight *
/// from over a token's experts, in the order of its choice. Divided by rows or columns.
struct AddOp {
  float* to;          ///< [rows][cols]
  const float* from;  ///< [rows / each][cols]; with experts [pairs][cols]
  std::int64_t rows, cols, to_stride, from_stride;
  float scale = 1;
  const float* gate = nullptr;  ///< [rows]
  ExpertChoice experts{};
  bool weighted = true;   ///< else all weights are 1
  std::int64_t each = 1;  ///< without experts: a row of `from` is added to so many rows of `to`, one after another
};

/// The function from a router's logits to weights.
enum class RouterKind {
  kSoftmax,          ///< over all experts
  kSigmoid,          ///< of each expert separately
  kSoftmaxOfChosen,  ///< the highest logits are chosen, and the softmax is only over them
  kSigmoidOfChosen   ///< the highest logits are chosen, also where their sigmoids are equal
};

/// Chooses each token's experts: those with the highest probability (plus `bias`, which affects only the choice); of equal ones the first.
/// The choice is divided by rows; numbering the pairs needs all rows.
struct RouterOp {
  const float* logits;  ///< [rows][experts]
  std::int64_t rows;
  RouterKind kind;
  bool normalize;               ///< a token's weights are divided by their sum
  float scale = 1;              ///< and multiplied by this
  const float* bias = nullptr;  ///< [experts]
  /// Experts are in consecutive groups of equal size. Only experts of the best groups can be chosen; a group's score is the sum of its two
  /// best experts, and of equal groups the first is better. 0: all experts can be chosen.
  std::int64_t groups = 0, groups_used = 0;
  ExpertChoice choice;
};

/// x = cap tanh(scale x / cap), or scale x if cap is 0. With experts, x has a row per pair, which is multiplied by its expert's weight.
/// Divided in any way.
struct ScaleOp {
  float* x;  ///< [n]
  std::int64_t n;
  float scale;
  float cap = 0;
  ExpertChoice experts{};
  std::int64_t cols = 0;  ///< with experts
};

/// More units than share a list.
inline constexpr int kMaxUnits = 8;

/// The highest value of each row. Divided by columns: unit u writes the highest of its own, to be compared by whoever reads them.
struct HighestOp {
  const float* x;  ///< [rows][cols]
  std::int64_t rows, cols;
  Highest* out;              ///< [kMaxUnits][rows]; what no unit writes keeps its value
  OpRange columns{};         ///< that are compared
  bool only_reader = false;  ///< nothing else reads x: a unit may keep it in memory that nobody else can read
};

/// Applies RoPE to queries and keys, and writes keys and values into the cache. If there are norm weights, queries and keys are first
/// normalized by the root mean square of each head, or after RoPE. Divided by rows and heads.
struct StoreOp {
  float* q;        ///< [rows][q_heads * head_dim], rotated in place
  float* k;        ///< [rows][kv_heads * head_dim]
  const float* v;  ///< [rows][kv_heads * head_dim]; null: values are parts of keys
  std::int64_t rows, q_heads, kv_heads, head_dim, rotary_dim;
  bool interleaved;      ///< pairs (2i, 2i+1), else (i, i + rotary_dim/2)
  const float* cos_sin;  ///< [rows][rotary_dim/2][2]
  const std::int32_t* cells;
  void* const* cache_k;  ///< [kv_heads] -> [cell][head_dim]
  void* const* cache_v;
  TensorType k_type, v_type;      ///< F32, F16 or, if head_dim is a multiple of 32, Q8_0
  const float* q_norm = nullptr;  ///< [head_dim], of every head
  const float* k_norm = nullptr;
  bool unit_norm = false;          ///< all weights of norms are 1
  bool norm_last = false;          ///< after RoPE
  const float* q_scale = nullptr;  ///< [rows], factors of the queries, applied last
  float epsilon = 0;
  const float* q_rotary = nullptr;   ///< source of queries' first rotary_dim elements: [rows][q_heads], heads `q_rotary_stride` floats
  std::int64_t q_rotary_stride = 0;  ///< apart; null: from q
  OpRange queries{}, keys{};         ///< heads that are rotated and stored
};

/// Each row picks the visible cells with the highest scores, of equal ones the first: as many as there are in its `picked`, in position
/// order. A cell's score is the sum of weight * max(0, query . key) over the heads of an index, in their order. With `blocks`, `visible`
/// are the last cells of whole blocks, the key of each is its block's, and all cells of picked blocks are picked, and then those after the
/// last whole block. Divided by rows.
struct PickOp {
  const float* q;        ///< [rows][heads][dim]
  const float* weights;  ///< [rows][heads], or with `same_weights` [heads]
  std::int64_t rows, heads, dim;
  std::span<const std::int32_t> const* visible;  ///< [rows], position order
  std::span<const std::int32_t> const* picked;   ///< [rows]: where the picked cells are written, one row after another
  void* const* cache;                            ///< of one head: [cell][dim]
  TensorType type;                               ///< as in StoreOp
  bool same_weights = false;                     ///< of all rows
  /// [rows]: all cells that a row sees, of which the first `block` are the first block; null: blocks of one cell.
  std::span<const std::int32_t> const* blocks = nullptr;
  std::int64_t block = 1;  ///< cells

  /// Of which cells it picks.
  std::span<const std::int32_t> const* all() const { return blocks ? blocks : visible; }
  /// Cells of a row after the last whole block.
  std::int64_t tail(std::int64_t row) const { return std::ssize(all()[row]) - std::ssize(visible[row]) * block; }
  std::int64_t weight_row() const { return same_weights ? 0 : heads; }
  std::int64_t weight_count() const { return same_weights ? heads : rows * heads; }

  /// Of all rows together.
  std::int64_t picks() const {
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < rows; ++row) count += std::ssize(picked[row]);
    return count;
  }
  /// The memory of `picked`.
  std::int32_t* to() const { return const_cast<std::int32_t*>(picked[0].data()); }
};

/// The mean of the keys of each row's cells: their sum in the order of the cells, times 1 / their number. Divided by rows.
struct PoolOp {
  std::span<const std::int32_t> const* cells;  ///< [rows], of one size
  std::int64_t rows, dim;
  void* const* cache;  ///< of one head: [cell][dim]
  TensorType type;     ///< as in StoreOp
  float* out;          ///< [rows][dim]
};

/// Attention over the visible cells of each row. Divided by rows, heads, and segments of cells.
struct AttentionOp {
  const float* q;  ///< [rows][q_heads * head_dim]
  std::int64_t rows, q_heads, kv_heads, head_dim;
  float scale;
  std::span<const std::int32_t> const* visible;  ///< [rows], position order
  void* const* cache_k;
  void* const* cache_v;  ///< may be cache_k
  TensorType k_type, v_type;
  float* out;                    ///< [rows][q_heads * head_dim]
  std::int64_t group = 0;        ///< query heads that share a key/value head; 0: q_heads / kv_heads
  std::int64_t before = 0;       ///< number of the first key/value head's query heads that are on other members
  float softcap = 0;             ///< c: scores become c tanh(score / c); 0: off
  const float* sinks = nullptr;  ///< [q_heads]: an additional score that has a weight but no value
  OpRange heads{};               ///< query heads that are computed
  /// The cells of which a PickOp in the list picks the visible ones; null: the visible ones are known. Only their number is known before.
  std::span<const std::int32_t> const* picked_of = nullptr;

  std::int64_t heads_per_kv() const { return group > 0 ? group : q_heads / kv_heads; }
};

/// Cells of a segment. Attention is computed in segments of a row's visible cells, in position order, and their results are merged in that
/// order.
inline constexpr std::int64_t kAttentionSegment = 256;

/// Results of attention over single segments, `first` up to `last`, before they are merged and divided by their total. If a row sees no
/// cell of a segment, its entry is not written.
struct AttentionPartials {
  std::int64_t first = 0, last = 0;
  float* out;           ///< [segment][row][q_heads][head_dim], segment 0 being `first`
  float *peak, *total;  ///< [segment][row][q_heads]: the greatest score, and the sum of exp(score - peak)
};

/// Some segments of an attention, as one unit's share of it; the attention's `out` is not written.
struct AttentionPartOp {
  AttentionOp attention;
  AttentionPartials partials;
};

/// Computes the attention's `out` from the partial results of all its segments, in order, with the same bits as the AttentionOp alone.
/// Cache and queries are not read.
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

/// An all-gather of the columns of x among the members of a group.
struct AllGatherOp {
  float* x;  ///< [rows][cols]
  std::int64_t rows, cols;
  SharedColumns share;
  OpRange brings{};  ///< rows that are copied into x; the others' columns of the remaining rows stay in the receive buffer
};

/// Loads a part of a mapped file into memory.
struct ReadOp {
  std::span<const std::byte> bytes;  ///< all may be used later by the unit
  OpRange own{};                     ///< those that the unit reads now
};

/// Packs a matrix for the unit that will use it.
struct PackOp {
  const Matrix* matrix;
  std::byte* to;  ///< the unit's packed_bytes of it
  OpRange rows{};
};

/// Synchronizes the units that compute lists together: after it, each sees what the others have written. If one of them wants to stop, all
/// stop the list here.
struct BarrierOp {
  UnitBarrier* barrier;
  int own;  ///< number of this unit among them
};

using Op = std::variant<EmbedOp, LinearOp, StoreOp, AttentionOp, AttentionPartOp, MergeAttentionOp, GatherOp, AllGatherOp, ReadOp, PackOp,
                        NormOp, ResizeOp, AddOp, RouterOp, ScaleOp, HighestOp, BarrierOp, StateInputsOp, DeltaRuleOp, ScanOp,
                        GatedConvolutionOp, HeadGateOp, UngateOp, PickOp, PoolOp, FarConvolutionOp, LikenessOp>;

}  // namespace yamata
