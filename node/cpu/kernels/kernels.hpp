#pragma once
// The interface of the CPU's kernels: one table of functions per instruction set, chosen once.
//
// Every instruction set gives the same bits, at every batch width. The order of summation is part of each function's definition.
// - Products with quantized weights are integers within a block of 32. The blocks are added in ascending order, each with a fused
//   multiply-add: sum = fma(float(integer sum), weight scale * activation scale, sum); then, for formats with a min, sum = fma(min,
//   activation sum, sum).
// - Other dot products have 16 lanes; lane l sums its terms in ascending order with fused multiply-adds; then the lanes are added as
//   l[j]+l[j+8], then [j]+[j+4], [j]+[j+2], [0]+[1].
// - Products of queries and keys have 8 lanes, added from [j]+[j+4] on; a weight is exp(fma(product, scale, -peak)).
#include <cstddef>
#include <cstdint>

#include "node/activation.hpp"
#include "node/head_dim.hpp"
#include "node/tensor_type.hpp"

namespace yamata::cpu {

enum class Isa { kScalar, kAvx2, kAvxVnni, kAvx512, kNeon, kNeonDotprod, kNeonI8mm };
const char* isa_name(Isa isa);

/// Activations of several tokens, quantized to 8 bits in blocks of 32 (symmetric, scale = max|x|/127, round to nearest even). They are
/// stored in tiles of `tile_columns` tokens (a constant of the kernels; the last tile has the rest), each as described in panel.hpp.
struct QuantizedRows {
  std::byte* data;
  std::int64_t blocks;  ///< in a token's row; the last one is padded with zeros
  std::int64_t rows;    ///< tokens

  static constexpr std::int64_t blocks_of(std::int64_t n) { return (n + 31) / 32; }
};

/// A block of one token's quantized activations, in the form in which the ranks of a group send it.
struct EncodedBlock {
  std::int8_t values[32];
  float scale;
};

/// y[t*ldy + r] = sum_k W[r][k] * x[t][k], for rows r of [row_begin, row_end) and all tokens t; if `add`, added to y. Quantized weights use
/// `quantized`; F32, F16 and BF16 weights use `x`.
struct MatmulArgs {
  const std::byte* weights;  ///< the start of row 0, or of the first panel
  std::size_t row_bytes;
  bool packed;                      ///< quantized weights are in panels of `panel_rows` rows
  std::int64_t row_begin, row_end;  ///< whole panels if the weights are quantized; the last one may be shorter
  std::int64_t cols;
  const float* x;  ///< [tokens][cols]
  QuantizedRows quantized;
  std::int64_t tokens;
  float* y;
  std::int64_t ldy;
  bool add;
  std::byte* scratch;  ///< memory for one panel, if the weights are quantized and not packed
};

/// Queries of one token that share a key/value head, and their results. A result is merged from the results of chunks: over a chunk's
/// cells, the largest score (peak), the sum of exp(score - peak), and the sum of exp(score - peak) * value.
struct AttentionRow {
  const float* q;             ///< [heads][head_dim]
  const std::int32_t* cells;  ///< visible cells in position order
  std::int64_t count;
  float* peak;   ///< [heads]
  float* total;  ///< [heads]
  float* out;    ///< [heads][head_dim]
};

/// One chunk of attention for tokens that share a key/value head. Chunk c of a row is the entries from c * kAttentionChunk on in the row's
/// own list of cells, whatever the other rows see. Keys are used in the order of the list.
struct AttentionArgs {
  const AttentionRow* rows;  ///< each has cells in the chunk
  std::int64_t row_count;
  std::int64_t chunk;
  const void* k;  ///< [cell][head_dim]
  const void* v;
  TensorType k_type, v_type;  ///< F32, F16 or Q8_0
  float scale;                ///< positive
  std::int64_t heads;         ///< of each row; row_count * heads is at most kAttentionQueries
  std::int64_t head_dim;      ///< a multiple of 16 up to kMaxHeadDim; with Q8_0, of 32
  float softcap;              ///< c: scale * product becomes c tanh(scale * product / c); 0: none
};
inline constexpr std::int64_t kAttentionChunk = 128;

/// Scores of cells for a token in sparse attention: scores[i] = the sum of weight * max(0, query . key) over the heads, in order, with
/// fused multiply-adds from 0 on.
struct IndexArgs {
  const float *q, *weights;   ///< [heads][dim], [heads]
  const std::int32_t* cells;  ///< [count]
  std::int64_t count;
  const void* k;    ///< [cell][dim]
  TensorType type;  ///< as in AttentionArgs
  std::int64_t heads, dim;
  float* scores;  ///< [count]
};
inline constexpr std::int64_t kAttentionQueries = 32;

struct KernelTable {
  Isa isa;
  int panel_rows;    ///< rows of a panel of quantized weights; 0: the kernels only read the file's layout
  int tile_columns;  ///< tokens per tile of quantized activations
  void (*matmul[kTensorTypeCount])(const MatmulArgs&);
  /// Quantizes elements [begin, end) of token `row`, given in x. `begin` is a multiple of 32, and so is `end` unless it is the row's end;
  /// then the block is padded with zeros. With `weight` (indexed like x), quantizes x * weight. The scales are multiplied by `factor`
  /// afterwards: an RMSNorm is quantized before the division by the root mean square, so that ranks that hold parts of a row can quantize
  /// them alone.
  void (*quantize)(const float* x, const float* weight, float factor, std::int64_t begin, std::int64_t end, const QuantizedRows& out,
                   std::int64_t row);
  /// The blocks of n elements x (times weight), with scales that are not multiplied by a factor; the last block is padded with zeros.
  void (*encode_blocks)(const float* x, const float* weight, std::int64_t n, EncodedBlock* out);
  /// Writes encoded blocks into the row, from block `first` on. The result equals that of `quantize` with this factor.
  void (*decode_blocks)(const EncodedBlock* blocks, std::int64_t count, float factor, const QuantizedRows& out, std::int64_t row,
                        std::int64_t first);
  /// The sum of squares of each block of 32 elements: 16 lanes, fma(x[16+l], x[16+l], x[l] * x[l]), added as above.
  void (*block_squares)(const float* x, std::int64_t n, float* squares);
  /// 1 / sqrt(mean of n squares + epsilon), from the sums of blocks of 32, which are added in order, in double precision.
  float (*inverse_rms)(const float* squares, std::int64_t n, float epsilon);
  /// y = x * factor * weight
  void (*scale_mul)(const float* x, float factor, const float* weight, std::int64_t n, float* y);
  /// y = activation(gate) * up as activation.hpp defines it, or activation(gate) if up is null
  void (*activate)(Activation activation, const float* gate, const float* up, std::int64_t n, float* y);
  /// y = e to the power x within 2 ulp; 0 below -104, infinity above 89
  void (*exponentials)(const float* x, std::int64_t n, float* y);
  void (*attention)(const AttentionArgs&);
  /// Merges the result of the following chunk into that of the chunks before, with the online softmax (Ghidorah's merge, algorithms of
  /// HCMP).
  void (*merge_attention)(const AttentionRow& into, const AttentionRow& next, std::int64_t heads, std::int64_t head_dim);
  /// out = row.out / row.total, after all chunks are merged. Before the division, each head's sink, if there is one, is merged like a chunk
  /// without values.
  void (*finish_attention)(const AttentionRow& row, std::int64_t heads, std::int64_t head_dim, const float* sinks, float* out);
  /// Writes `n` floats (head_dim) into a cell of a plane: F32, F16 (rounded to nearest), or Q8_0 as GGUF defines it.
  void (*store_cell)(const float* x, std::int64_t n, TensorType type, void* plane, std::int64_t cell);
  void (*index_scores)(const IndexArgs&);
};

/// Whether this machine's processor is AMD's.
extern const bool kIsAmd;
/// Whether the kernels of `isa` are built in and this machine can run them.
bool isa_usable(Isa isa);
/// The best usable instruction set, or the one named by YAMATA_ISA; throws UsageError if that is unknown or not usable here.
Isa choose_isa();
const KernelTable& kernels(Isa isa);

/// Expands `n` elements (whole blocks) to floats. This is the definition of each format.
void dequantize(TensorType type, const std::byte* src, std::int64_t n, float* dst);
float f16_to_f32(std::uint16_t half);
std::uint16_t f32_to_f16(float value);  ///< round to nearest even

}  // namespace yamata::cpu
