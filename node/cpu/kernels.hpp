#pragma once
// The kernel seam: one table of functions per instruction set, chosen once.
//
// Every instruction set gives the same bits, at every batch width. The order of summation is a part of each
// function's meaning. Products with quantized weights are whole numbers within a block of 32; the blocks are added in
// ascending order, each with a fused multiply-add: sum = fma(float(whole), weight scale * activation scale, sum), then of formats
// with a minimum sum = fma(minimum, activation sum, sum). Other dot products have 16 lanes; lane l sums its terms in
// ascending order with fused multiply-adds, and the lanes are added as l[j]+l[j+8], then [j]+[j+4], [j]+[j+2], [0]+[1].
#include <cstddef>
#include <cstdint>

#include "node/tensor_type.hpp"

namespace yamata::cpu {

enum class Isa { kScalar, kAvx2, kAvxVnni, kAvx512, kNeon, kNeonDotprod };
const char* isa_name(Isa isa);

/// Activations of several tokens, quantized to 8 bits in blocks of 32 (symmetric, scale = max|x|/127, round to nearest even).
/// They lie in tiles of `tile_columns` tokens (the kernels'; the last tile has the rest), each as panel.hpp says.
struct QuantizedRows {
  std::byte* data;
  std::int64_t blocks;  ///< in a token's row, the last filled up with zeros
  std::int64_t rows;    ///< tokens

  static constexpr std::int64_t blocks_of(std::int64_t n) { return (n + 31) / 32; }
};

/// y[t*ldy + r] = sum_k W[r][k] * x[t][k], for rows r of [row_begin, row_end) and all tokens t; added to y where `add`.
/// Quantized weights read `quantized`; F32, F16 and BF16 weights read `x`.
struct MatmulArgs {
  const std::byte* weights;  ///< row 0, or the first panel
  std::size_t row_bytes;
  bool packed;                      ///< quantized weights lie in panels of `panel_rows` rows
  std::int64_t row_begin, row_end;  ///< of quantized weights whole panels, but for the last
  std::int64_t cols;
  const float* x;  ///< [tokens][cols]
  QuantizedRows quantized;
  std::int64_t tokens;
  float* y;
  std::int64_t ldy;
  bool add;
  std::byte* scratch;  ///< panel_rows * row_bytes bytes, where weights are quantized and not packed
};

/// Attention of `heads` query heads that share one key/value head, for one token.
/// Keys are taken in the order of `cells` (position order) in chunks of kAttentionChunk; each chunk gives (m, l, o),
/// merged in order with the online softmax (Ghidorah's merge, algorithms of HCMP).
struct AttentionArgs {
  const float* q;             ///< [heads][head_dim]
  const void* k;              ///< [cell][head_dim], F16 or F32
  const void* v;              ///< [cell][head_dim]
  bool f16;                   ///< K and V are F16, else F32
  const std::int32_t* cells;  ///< visible cells in position order
  std::int64_t cell_count;
  float scale;
  std::int64_t heads, head_dim;  ///< head_dim is a multiple of 16
  float* out;                    ///< [heads][head_dim]
};
inline constexpr std::int64_t kAttentionChunk = 128;

struct KernelTable {
  Isa isa;
  int panel_rows;    ///< rows of a panel of quantized weights; 0 where the kernels read only the file's layout
  int tile_columns;  ///< tokens of a tile of quantized activations
  void (*matmul[kTensorTypeCount])(const MatmulArgs&);
  /// Quantizes elements [begin, end) of token `row`, whose activations x are; begin is a multiple of 32, end too or the row's
  /// end (then pads with zeros).
  void (*quantize)(const float* x, std::int64_t begin, std::int64_t end, const QuantizedRows& out, std::int64_t row);
  void (*rms_norm)(const float* x, const float* weight, float eps, std::int64_t n, float* y);
  /// y = silu(gate) * up
  void (*silu_mul)(const float* gate, const float* up, std::int64_t n, float* y);
  void (*attention)(const AttentionArgs&);
};

/// Whether this machine can run the kernels of `isa` and they are built in.
bool isa_usable(Isa isa);
/// The best usable instruction set, or the one YAMATA_ISA names; throws UsageError if that is unknown or not usable here.
Isa choose_isa();
const KernelTable& kernels(Isa isa);

/// Expands `n` elements (whole blocks) to float; the definition of each format.
void dequantize(TensorType type, const std::byte* src, std::int64_t n, float* dst);
float f16_to_f32(std::uint16_t half);
std::uint16_t f32_to_f16(float value);  ///< round to nearest even

}  // namespace yamata::cpu
