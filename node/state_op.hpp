#pragma once
// Operations of layers that have a state instead of cells: the last inputs of a convolution, and, with most, one matrix per head. Each
// token decays it, changes it, and reads it with its query. A gated delta rule (Gated DeltaNet, equation 10) replaces what its key finds
// there by its value. A scan (Mamba-2, where queries, keys and values are C, B and x) adds its value.
#include <array>
#include <cstdint>
#include <span>

#include "node/op_range.hpp"

namespace yamata {

/// The sizes of a layer's states. Queries and keys have `key_heads` heads, values `heads`. Without key heads, there are no matrices: heads
/// are blocks of the convolution's channels.
struct StateShape {
  /// Columns that a convolution reads, at most: a token's own, and those of the tokens before it.
  static constexpr std::int64_t kTaps = 4;
  /// Columns that are kept with a state: those of the tokens before its end.
  static constexpr std::int32_t kColumns = kTaps - 1;
  /// A state's columns are divided into blocks of so many: [heads][blocks][key_size()][kBlock].
  static constexpr std::int64_t kBlock = 16;
  static constexpr std::int64_t kMostDim = 256;

  std::int64_t heads = 0, key_heads = 0;
  std::int64_t dim = 0;      ///< of a value: a multiple of kBlock, up to kMostDim
  std::int64_t key_dim = 0;  ///< the same of a query and a key; 0: as of a value
  std::int64_t taps = kTaps;
  bool scan = false;    ///< else a gated delta rule
  bool cyclic = false;  ///< the key head of value head i is i modulo `key_heads`; else several consecutive heads share one
  /// Of a member of a group: numbers of its first heads in the layer, and how many the layer has; 0: these are all.
  std::int64_t first_head = 0, first_key_head = 0, layer_heads = 0, layer_key_heads = 0;

  std::int64_t key_size() const { return key_dim > 0 ? key_dim : dim; }
  std::int64_t keys() const { return key_heads * key_size(); }
  std::int64_t values() const { return heads * dim; }
  /// Columns of the convolution: queries, keys and values.
  std::int64_t channels() const { return 2 * keys() + values(); }
  std::int64_t layer_keys() const { return layer_key_heads > 0 ? layer_key_heads : key_heads; }
  /// Number of heads that share a key head.
  std::int64_t sharing() const { return layer_heads > 0 ? layer_heads / layer_key_heads : heads / key_heads; }
  std::int64_t key_head_of(std::int64_t head) const {
    return (cyclic ? (first_head + head) % layer_keys() : (first_head + head) / sharing()) - first_key_head;
  }
  /// Some heads of a layer, with their key heads, of which all between the first and the last are included. Call it for a whole layer.
  StateShape some(std::int64_t begin, std::int64_t end) const {
    StateShape part = *this;
    part.heads = end - begin, part.first_head = begin, part.layer_heads = heads, part.layer_key_heads = key_heads;
    if (key_heads == 0) return part;
    const std::int64_t first = cyclic ? begin % key_heads : begin / sharing();
    const std::int64_t past = cyclic ? first + part.heads : (end + sharing() - 1) / sharing();
    if (past > key_heads) return part;  // from the last one on to the first: all
    part.first_key_head = first, part.key_heads = past - first;
    return part;
  }
  std::int64_t state_floats() const { return key_heads > 0 ? values() * key_size() : 0; }
  /// What a token does to the state: keys, values, and the decay and the strength of each head.
  std::int64_t update_floats() const { return key_heads > 0 ? keys() + values() + 2 * heads : 0; }
  /// The same, and its queries.
  std::int64_t input_floats() const { return update_floats() + keys(); }
  friend bool operator==(const StateShape&, const StateShape&) = default;
};

/// A layer's memory.
struct StateMemory {
  float* states;  ///< [states][state_floats]
  /// [inputs + kColumns * states][channels]: inputs of the convolution, of tokens and, oldest first, of those before a state's end
  float* columns;
  float* updates;  ///< [inputs][update_floats]
};

/// A token's step from one state to the next. Steps are in an order in which most continue the one before; others begin at a saved state.
struct StateStep {
  static constexpr std::int32_t kContinue = -1, kZero = -2;

  std::int32_t row = -1;          ///< of the run; -1: of an earlier one, whose inputs are read from the layer's memory
  std::int32_t input = -1;        ///< where they are; for a row of this run: where they are written; -1: nowhere
  std::int32_t load = kContinue;  ///< the state before: that of the step before, none, or the number of one in memory, or, from
                                  ///< `StatePlan::states` on, of one that was put aside
  std::int32_t keep = -1;         ///< number in memory that its state gets
  std::int32_t aside = -1;        ///< number under which its state is put aside for later steps, if it is not kept
  /// The convolution's columns, its own first: numbers in memory; kZero: none; below that, kZero - 1 - r: row r of the run.
  std::array<std::int32_t, StateShape::kTaps> columns{};
  friend bool operator==(const StateStep&, const StateStep&) = default;

  static constexpr std::int32_t own_column(std::int32_t row) { return kZero - 1 - row; }
  static constexpr std::int32_t row_of(std::int32_t own_column) { return kZero - 1 - own_column; }
};

/// A run's steps. They are the same in all layers.
struct StatePlan {
  std::span<const StateStep> steps;
  std::int32_t inputs = 0, states = 0;  ///< in each layer's memory
  std::int32_t aside = 0;               ///< number of states that are put aside at the same time
  /// For a convolution that reaches far back: how many columns are kept with a state in its memory.
  std::int32_t far_kept = 0;
  /// [steps][far_kept + 1]: each step's own column and those before it, as StateStep::columns, in that memory.
  std::span<const std::int32_t> far_columns{};

  /// Number of the column that lies `back` tokens, from 1 to kColumns, before what follows a state.
  std::int32_t column_of(std::int32_t state, std::int32_t back) const { return inputs + StateShape::kColumns * (state + 1) - back; }
  /// The same in the memory of a convolution that reaches far back.
  std::int32_t far_column_of(std::int32_t state, std::int32_t back) const { return inputs + far_kept * (state + 1) - back; }
  /// Of a step, by its number.
  const std::int32_t* far_columns_of(std::size_t step) const { return far_columns.data() + step * static_cast<std::size_t>(far_kept + 1); }
};

/// The inputs of the rule. Queries, keys and values: silu of a convolution per channel. Decay: e to the power rate * log(1 + e^(decay +
/// bias)). Of a delta rule, queries and keys are divided by their length, queries also by sqrt(dim); strength: sigmoid. Of a scan, the
/// strength is the logarithm. Divided by heads.
struct StateInputsOp {
  const float* x;  ///< [rows][channels]: queries, keys, values
  /// [rows][gates_row]; of head i, with n = i + gates_before, the strength's is element n / each * step + n % each, and the decay's is
  /// `decay` elements later
  const float* gates;
  std::int64_t gates_row, gates_before, gates_each, gates_step, gates_decay;
  StateShape shape;
  std::array<const float*, 3> taps;       ///< of queries, keys and values: [channels][kTaps], the oldest first
  std::array<const float*, 3> offsets{};  ///< the same, [channels]: added to the convolution's sums; null: nothing
  const float* rate;                      ///< [heads], negative
  const float* bias;                      ///< [heads]
  const StatePlan* plan;
  StateMemory memory;
  float* out;               ///< [rows][input_floats]: keys, values, decays, strengths, queries
  OpRange keys{}, heads{};  ///< key heads whose queries and keys, and heads whose values and gates are computed
};

/// For each step and each column c of a head's state S: S *= decay; d = (v[c] - sum of S[i][c] k[i]) * strength; S[i][c] += k[i] d;
/// out[c] = sum of S[i][c] q[i]. Sums are of four partial sums, of every fourth i: (0 + 1) + (2 + 3). Divided by heads and blocks.
struct DeltaRuleOp {
  const float* inputs;  ///< as StateInputsOp::out
  StateShape shape;
  const StatePlan* plan;
  StateMemory memory;
  float* out;       ///< [rows][values]
  bool* finished;   ///< set to true when it or its list has been computed, if not null
  OpRange which{};  ///< heads that are computed
};

/// For each step and each column c of a head's state S: S[i][c] = S[i][c] * decay + k[i] * (v[c] * strength); out[c] = sum of S[i][c] q[i],
/// in the same order, + skip * v[c]. Divided as a DeltaRuleOp.
struct ScanOp {
  const float* inputs;  ///< as StateInputsOp::out
  StateShape shape;
  const StatePlan* plan;
  StateMemory memory;
  float* out;         ///< [rows][values]
  bool* finished;     ///< as in DeltaRuleOp
  OpRange which{};    ///< heads that are computed
  const float* skip;  ///< [heads]
};

/// A convolution per channel between two gates: the sum of taps times columns, times the token's second gate. A column is the token's input
/// times its first gate. Divided by heads.
struct GatedConvolutionOp {
  const float* x;  ///< [rows][3][channels]: first gates, second gates, inputs
  StateShape shape;
  const float* taps;  ///< [channels][shape.taps], the oldest first
  const StatePlan* plan;
  StateMemory memory;  ///< only columns
  float* out;          ///< [rows][channels]
  bool* finished;      ///< as in DeltaRuleOp
  OpRange which{};     ///< heads that are computed
};

/// A convolution per channel over every `dilation`-th column up to a token's own: silu of the sum of taps times columns, the oldest first.
/// A column is a token's input. `StatePlan::far_kept` columns are kept with a state.
struct FarConvolutionOp {
  const float* x;  ///< [rows][channels]
  std::int64_t channels, tap_count, dilation;
  const float* taps;  ///< [channels][tap_count], the oldest first
  const StatePlan* plan;
  float* columns;  ///< [inputs + far_kept * states][channels]: memory, as StateMemory::columns
  float* out;      ///< [rows][channels]
};

/// How alike two vectors are: out[row] = s * sqrt(max(|p|, 10^-6)), where p is their product times `scale` and s its sign, or 0. Products
/// are of eight sums, in double precision, of every eighth element, added up one after another.
struct LikenessOp {
  const float *a, *b;  ///< [rows][cols]
  std::int64_t rows, cols;
  float scale;
  float* out;  ///< [rows]
};

/// Gates of heads: x = x * sigmoid(gate), or x * silu(gate); with a norm, x / rms(x) * norm instead of x. Divided by rows and heads.
struct HeadGateOp {
  float* x;  ///< [rows][heads][dim]
  std::int64_t rows, heads, dim;
  const float* gate;  ///< [rows][gate_row], a head's at gate_head * its number
  std::int64_t gate_row, gate_head;
  const float* norm = nullptr;  ///< [dim]
  float epsilon = 0;
  OpRange which{};  ///< heads that are computed
  bool silu = false;
};

/// out[row][head] = x[row][2 * head]: takes apart heads that lie beside their gates. Divided by rows.
struct UngateOp {
  const float* x;  ///< [rows][heads][2][dim]
  std::int64_t rows, heads, dim;
  float* out;       ///< [rows][heads][dim]
  OpRange which{};  ///< heads that are computed
};

}  // namespace yamata
