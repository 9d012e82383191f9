#pragma once
// Products of quantized weights with many tokens, on tensor cores: the integer sums of a block of 32 are exact in any order.
//
// A thread block computes some panels of 32 rows for some tokens. Its loading warps copy stages of a few blocks of columns into a ring in
// shared memory, some stages ahead, and decode the scales of the next stage. Its multiplying warps each have one of the panels and a part
// of the tokens; their floating-point sums stay in registers. There is one barrier per stage.
#include "node/cuda/kernels/few_tokens.hpp"
#include "node/cuda/kernels/many_stages.hpp"

namespace yamata::cuda {
namespace {

/// Adds a block to the sums of a warp's lane: [8 tokens][16 rows][as mma_k32 distributes them]. Rows 2 group and 2 group + 1 of 16 are
/// rows group and group + 8 of a product.
template <class Block, class Tile>
class ManyBlock {
  using Stages = ManyStages<Block, Tile>;
  static constexpr cpu::PanelFormat kFormat = Stages::kFormat;
  static constexpr unsigned kOfRow = Stages::kOfRow, kOfToken = Stages::kOfToken;

 public:
  using Sums = float[Tile::kWarpTokens / 8][2][4];

  static YAMATA_DEVICE void add(const typename Stages::Stage& stage, const typename Stages::Factors& factors, unsigned b, Sums& sums) {
    ManyBlock block;
    YAMATA_UNROLL
    for (unsigned rows = 0; rows < 2; ++rows) block.read_rows(stage, factors, b, rows);
    YAMATA_UNROLL
    for (unsigned n = 0; n < Tile::kWarpTokens / 8; ++n) {
      const unsigned token = first_token() + 8 * n;
      std::uint32_t x[2];
      const std::uint32_t* from = stage.x[token + group()] + b * 8;
      if constexpr (Stages::kAdjacent)
        read<2>(from + step(0), x);
      else
        x[0] = from[step(0)], x[1] = from[step(1)];
      float of_tokens[2 * kOfToken];
      read<2 * kOfToken>(factors.tokens[b][token + 2 * (simt::lane() % 4)], of_tokens);
      YAMATA_UNROLL
      for (unsigned rows = 0; rows < 2; ++rows) block.add_product(rows, x, of_tokens, sums[n][rows]);
    }
  }

  static YAMATA_DEVICE unsigned panel() { return simt::warp() % Tile::kPanels; }
  static YAMATA_DEVICE unsigned first_token() { return simt::warp() / Tile::kPanels * Tile::kWarpTokens; }
  static YAMATA_DEVICE unsigned group() { return simt::lane() / 4; }

 private:
  static YAMATA_DEVICE unsigned step(unsigned i) { return lane_step<Block>(i); }

  /// Reads kCount aligned words of shared memory, as many at once as possible.
  template <unsigned kCount, class Word>
  static YAMATA_DEVICE void read(const Word* from, Word (&to)[kCount]) {
    struct alignas(kCount % 4 == 0 ? 16 : 8) Some {
      Word word[kCount % 4 == 0 ? 4 : 2];
    };
    constexpr unsigned kEach = sizeof(Some) / sizeof(Word);
    YAMATA_UNROLL
    for (unsigned i = 0; i < kCount; i += kEach) {
      const Some some = *reinterpret_cast<const Some*>(from + i);
      for (unsigned j = 0; j < kEach; ++j) to[i + j] = some.word[j];
    }
  }

  YAMATA_DEVICE void read_rows(const typename Stages::Stage& stage, const typename Stages::Factors& factors, unsigned b, unsigned rows) {
    const unsigned row = 16 * rows + 2 * group();
    const auto& planes = stage.words[panel()][b];
    std::uint32_t low[2][2], high[2][2] = {};
    YAMATA_UNROLL
    for (unsigned i = 0; i < 2; ++i) {
      if (i == 1 && Stages::kAdjacent)
        low[1][0] = low[0][0], low[1][1] = low[0][1];
      else
        read<2>(&planes[step(i) / kLowSteps<Block>][row], low[i]);
      if constexpr (kFormat.high_bits > 0) {
        if (i == 1 && (Stages::kAdjacent || kHighSteps<Block> == 8))
          high[1][0] = high[0][0], high[1][1] = high[0][1];
        else
          read<2>(&planes[kFormat.low_bits + step(i) / kHighSteps<Block>][row], high[i]);
      }
      for (unsigned r = 0; r < 2; ++r) weights_[rows][2 * i + r] = unpack_step<Block>(low[i][r], high[i][r], step(i));
    }
    read<2 * kOfRow>(factors.rows[b][panel() * kPanelRows + row], of_rows_[rows]);
  }

  /// The integer sums. All are below 2^24, so floats hold them.
  YAMATA_DEVICE void multiply(unsigned rows, const std::uint32_t (&x)[2], float (&whole)[4]) const {
    const std::uint32_t(&w)[4] = weights_[rows];
    if constexpr (Stages::kSub) {
      int halves[2][4];
      for (unsigned i = 0; i < 2; ++i) simt::mma_k16(halves[i], w[2 * i], w[2 * i + 1], x[i], kRoundBits);
      for (unsigned i = 0; i < 4; ++i) {
        const float* sub = &of_rows_[rows][i / 2 * kOfRow + (Stages::kMin ? 2 : 1)];
        whole[i] = simt::fma(sub[1], float_of_sum(halves[1][i]), simt::fma(sub[0], float_of_sum(halves[0][i]), 0.0f));
      }
    } else {
      int bits[4];
      simt::mma_k32(bits, w, x, kRoundBits);
      for (unsigned i = 0; i < 4; ++i) whole[i] = float_of_sum(bits[i]);
    }
  }

  /// First a block's products, then the part of its minimum.
  YAMATA_DEVICE void add_product(unsigned rows, const std::uint32_t (&x)[2], const float (&of_tokens)[2 * kOfToken],
                                 float (&sums)[4]) const {
    float whole[4];
    multiply(rows, x, whole);
    YAMATA_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const float* row = &of_rows_[rows][i / 2 * kOfRow];
      const float* token = &of_tokens[i % 2 * kOfToken];
      sums[i] = simt::fma(whole[i], row[0] * token[0], sums[i]);
      if constexpr (Stages::kSubMin)
        sums[i] = simt::fma(simt::fma(row[5], token[2], simt::fma(row[4], token[1], 0.0f)), row[1] * token[0], sums[i]);
      else if constexpr (Stages::kMin)
        sums[i] = simt::fma(row[1], token[1], sums[i]);
    }
  }

  std::uint32_t weights_[2][4];
  float of_rows_[2][2 * kOfRow];
};

template <class Tile>
constexpr std::int64_t tiles_of(const ProductArgs::Part& part) {
  return divide_up(panels_of(part), Tile::kPanels);
}

/// Stores the warp's sums. All are read before the first is written, so that reads need not wait for writes.
template <class Tile>
YAMATA_DEVICE void store_tiles(const ProductArgs& a, const ProductArgs::Part& part, std::int64_t row, std::int64_t token,
                               float (&sums)[Tile::kWarpTokens / 8][2][4]) {
  const std::int64_t first_row = row + simt::lane() / 4 * 2, first_token = token + simt::lane() % 4 * 2;
  const auto for_each = [&](auto&& use) {
    YAMATA_UNROLL
    for (unsigned n = 0; n < Tile::kWarpTokens / 8; ++n) {
      YAMATA_UNROLL
      for (unsigned i = 0; i < 8; ++i) {
        const std::int64_t r = first_row + i / 4 * 16 + i / 2 % 2, t = first_token + n * 8 + i % 2;
        if (r >= part.begin && simt::within(r, part.end) && simt::within(t, a.tokens)) use(part.y[t * part.ldy + r], sums[n][i / 4][i % 4]);
      }
    }
  };
  if (a.add) for_each([](const float& y, float& sum) { sum += y; });
  for_each([](float& y, float sum) { y = sum; });
}

/// The loading warps. When the others begin a stage, its scales are decoded, and the stage after it is copied.
template <class Block, class Tile>
YAMATA_DEVICE void load_many(const ProductArgs& a, const ProductArgs::Part& part, std::int64_t panel, std::int64_t token,
                             typename ManyStages<Block, Tile>::Shared& shared) {
  using Stages = ManyStages<Block, Tile>;
  constexpr unsigned kDepth = Stages::kDepth;
  typename Stages::Copies copies(a, part, panel, token, shared.ring);
  YAMATA_UNROLL
  for (unsigned s = 0; s + 1 < kDepth; ++s) copies.copy(s);
  simt::wait_copies<kDepth - 2>();
  simt::sync_block();
  for (unsigned first = 0, s = 0, at = 0; first < a.x8.blocks; first += Tile::kStage, ++s) {  // at: where stage s is in the ring
    Stages::decode(shared.ring[at], first, shared.factors[s % 2]);
    simt::wait_copies<kDepth - 3>();
    simt::sync_block();
    copies.copy(at == 0 ? kDepth - 1 : at - 1);
    at = at + 1 == kDepth ? 0 : at + 1;
  }
}

/// The multiplying warps.
template <class Block, class Tile>
YAMATA_DEVICE void multiply_with_many(const ProductArgs& a, const ProductArgs::Part& part, std::int64_t panel, std::int64_t token,
                                      const typename ManyStages<Block, Tile>::Shared& shared) {
  using Stages = ManyStages<Block, Tile>;
  using OneBlock = ManyBlock<Block, Tile>;
  const unsigned blocks = static_cast<unsigned>(a.x8.blocks);
  typename OneBlock::Sums sums = {};
  simt::sync_block();
  for (unsigned first = 0, s = 0, at = 0; first < blocks; first += Tile::kStage, ++s) {
    simt::sync_block();
    const auto& stage = shared.ring[at];
    const auto& factors = shared.factors[s % 2];
    if (Stages::kFormat.grouped() || first + Tile::kStage <= blocks) {
      YAMATA_UNROLL
      for (unsigned b = 0; b < Tile::kStage; ++b) OneBlock::add(stage, factors, b, sums);
    } else {
      for (unsigned b = 0; simt::within(first + b, blocks); ++b) OneBlock::add(stage, factors, b, sums);
    }
    at = at + 1 == Stages::kDepth ? 0 : at + 1;
  }
  store_tiles<Tile>(a, part, (panel + OneBlock::panel()) * kPanelRows, token + OneBlock::first_token(), sums);
}

template <class Block, class Tile>
YAMATA_KERNEL void YAMATA_BOUNDS(Tile::kThreads, Tile::kMinBlocks) many_tokens(const ProductArgs a) {
  auto& shared = *simt::shared<typename ManyStages<Block, Tile>::Shared>();
  std::int64_t tile = simt::block_y();
  int p = 0;
  for (; p + 1 < a.part_count && tile >= tiles_of<Tile>(a.parts[p]); ++p) tile -= tiles_of<Tile>(a.parts[p]);
  const ProductArgs::Part& part = a.parts[p];
  const std::int64_t panel = part.begin / kPanelRows + tile * Tile::kPanels, token = std::int64_t{simt::block_x()} * Tile::kTokens;
  if (simt::warp() >= Tile::kWarps) return load_many<Block, Tile>(a, part, panel, token, shared);
  multiply_with_many<Block, Tile>(a, part, panel, token, shared);
}

template <class Block, class Tile>
void launch_many(const ProductArgs& a, Stream stream) {
  std::int64_t tiles = 0;
  for (int i = 0; i < a.part_count; ++i) tiles += tiles_of<Tile>(a.parts[i]);
  const simt::Grid grid{static_cast<unsigned>(divide_up(a.tokens, Tile::kTokens)), static_cast<unsigned>(tiles)};
  simt::launch(&many_tokens<Block, Tile>, grid, Tile::kThreads, sizeof(typename ManyStages<Block, Tile>::Shared), stream, a);
}

/// The more tokens, the larger a tile may be and still occupy all multiprocessors.
template <class Block>
void multiply_many(const ProductArgs& a, Stream stream) {
  if (a.tokens <= 32) return launch_many<Block, ManyTile<1, 4, 8, 4, 4, 1>>(a, stream);
  if (a.tokens <= 128) return launch_many<Block, ManyTile<2, 2, 16, 4, 4, 1>>(a, stream);
  launch_many<Block, ManyTile<4, 1, 64, 2, 2, 2>>(a, stream);
}

template <class Block>
void multiply(const ProductArgs& a, Stream stream) {
  if (a.tokens == 0 || panels_of(a) == 0) return;
  if (a.tokens <= kFewTokens) return multiply_few<Block>(a, stream);
  multiply_many<Block>(a, stream);
}

}  // namespace
}  // namespace yamata::cuda
