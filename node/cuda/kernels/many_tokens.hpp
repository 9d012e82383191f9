#pragma once
// Products of quantized weights with many tokens, on tensor cores: the integer sums of a block of 32 are exact in any order.
//
// A thread block computes a panel of 32 rows for 64 tokens, 16 tokens per warp. In each stage, four blocks of columns are unpacked into
// shared memory. The floating-point sums stay in registers.
#include "node/cuda/kernels/few_tokens.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kManyThreads = 128;
constexpr int kManyWarps = 4, kTileTokens = 64, kWarpTokens = kTileTokens / kManyWarps, kManyStage = kManyWarps;

/// Rows are padded so that the lanes of a warp read from 32 different banks.
struct ManyShared {
  std::uint32_t weights[kManyStage][8][kPanelRows + 8];
  std::uint32_t x[kManyStage][kTileTokens][8 + 4];
  float d[kManyStage][kPanelRows], m[kManyStage][kPanelRows];
  std::int16_t sub[kManyStage][kPanelRows][2], sub_min[kManyStage][kPanelRows][2];
  float scales[kManyStage][kTileTokens];
  std::int16_t sub_sums[kManyStage][kTileTokens][2];
};

/// Each warp unpacks one block of columns of the panel.
template <class Block>
YAMATA_DEVICE void load_weights(const ProductArgs& a, const std::byte* panel, std::int64_t first, ManyShared& shared) {
  const unsigned b = simt::warp(), row = simt::lane();
  if (!simt::within(first + b, a.x8.blocks)) return;
  const PanelBlock<Block> block(panel, first + b);
  const RowScales scales = block.scales(static_cast<int>(row));
  const BlockWords<Block> words = block.words(static_cast<int>(row));
  for (int i = 0; i < 8; ++i) shared.weights[b][i][row] = step_word<Block>(words, i);
  shared.d[b][row] = scales.d;
  shared.m[b][row] = scales.m;
  for (int i = 0; i < 2; ++i) {
    shared.sub[b][row][i] = static_cast<std::int16_t>(scales.sub[i]);
    shared.sub_min[b][row][i] = static_cast<std::int16_t>(scales.sub_min[i]);
  }
}

/// All threads load the tokens' activations. Missing tokens leave old data in shared memory; their results are not stored.
YAMATA_DEVICE void load_activations(const ProductArgs& a, std::int64_t first_token, std::int64_t first, ManyShared& shared) {
  for (unsigned i = simt::thread(); i < kManyStage * kTileTokens; i += kManyThreads) {
    const unsigned b = i % kManyStage, t = i / kManyStage;
    if (!simt::within(first + b, a.x8.blocks) || !simt::within(first_token + t, a.tokens)) continue;
    const std::int64_t at = (first_token + t) * a.x8.blocks + first + b;
    const ActivationWords x(a.x8, first_token + t, first + b);
    for (int j = 0; j < 8; ++j) shared.x[b][t][j] = x.step(j);
    shared.scales[b][t] = a.x8.scales[at];
    for (int j = 0; j < 2; ++j) shared.sub_sums[b][t][j] = a.x8.sub_sums[2 * at + j];
  }
}

/// The integer sums of 16 rows and 8 tokens, distributed over the lanes as by mma_k32.
template <class Block>
YAMATA_DEVICE void whole_tile(const ManyShared& shared, unsigned b, unsigned row, unsigned token, int (&whole)[4]) {
  const unsigned group = simt::lane() / 4, step = simt::lane() % 4;
  const auto& w = shared.weights[b];
  const std::uint32_t weights[4] = {w[step][row + group], w[step][row + group + 8], w[step + 4][row + group], w[step + 4][row + group + 8]};
  const std::uint32_t x[2] = {shared.x[b][token + group][step], shared.x[b][token + group][step + 4]};
  if constexpr (cpu::kPanelFormat<Block>.has_sub_blocks()) {
    int half[2][4] = {};
    simt::mma_k16(half[0], weights[0], weights[1], x[0]);
    simt::mma_k16(half[1], weights[2], weights[3], x[1]);
    for (int i = 0; i < 4; ++i) {
      const std::int16_t* sub = shared.sub[b][row + group + i / 2 * 8];
      whole[i] = sub[0] * half[0][i] + sub[1] * half[1][i];
    }
  } else {
    for (int& sum : whole) sum = 0;
    simt::mma_k32(whole, weights, x);
  }
}

/// Adds a stage to the warp's sums: [16 rows][8 tokens][a lane's elements].
template <class Block>
YAMATA_DEVICE void add_tiles(const ProductArgs& a, std::int64_t first, const ManyShared& shared, float (&sums)[2][2][4]) {
  const unsigned group = simt::lane() / 4, pair = simt::lane() % 4 * 2;
  for (unsigned b = 0; b < kManyStage; ++b) {
    if (!simt::within(first + b, a.x8.blocks)) return;
    for (unsigned tile = 0; tile < 4; ++tile) {
      const unsigned rows = tile / 2 * 16, tokens = simt::warp() * kWarpTokens + tile % 2 * 8;
      int whole[4];
      whole_tile<Block>(shared, b, rows, tokens, whole);
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = rows + group + i / 2 * 8, token = tokens + pair + i % 2;
        float& sum = sums[tile / 2][tile % 2][i];
        sum = add_block<Block>(sum, whole[i], shared.d[b][row], shared.m[b][row], shared.sub_min[b][row][0], shared.sub_min[b][row][1],
                               shared.scales[b][token], shared.sub_sums[b][token]);
      }
    }
  }
}

template <class Block>
YAMATA_KERNEL void YAMATA_BOUNDS(kManyThreads) many_tokens(const ProductArgs a) {
  ManyShared& shared = *simt::shared<ManyShared>();
  std::int64_t panel = simt::block_x();
  const ProductArgs::Part& part = part_of(a, panel);
  const std::byte* weights = part.panels + static_cast<std::size_t>(panel) * kPanelRows * a.row_bytes;
  const std::int64_t first_token = static_cast<std::int64_t>(simt::block_y()) * kTileTokens;
  float sums[2][2][4] = {};
  for (std::int64_t first = 0; first < a.x8.blocks; first += kManyStage) {
    load_weights<Block>(a, weights, first, shared);
    load_activations(a, first_token, first, shared);
    simt::sync_block();
    add_tiles<Block>(a, first, shared, sums);
    simt::sync_block();
  }
  const unsigned group = simt::lane() / 4, pair = simt::lane() % 4 * 2;
  for (unsigned i = 0; i < 16; ++i) {
    const unsigned tile = i / 4, element = i % 4;
    const std::int64_t row = panel * kPanelRows + tile / 2 * 16 + group + element / 2 * 8;
    const std::int64_t token = first_token + simt::warp() * kWarpTokens + tile % 2 * 8 + pair + element % 2;
    if (!simt::within(row, part.end) || row < part.begin || !simt::within(token, a.tokens)) continue;
    float* y = part.y + token * part.ldy + row;
    const float sum = sums[tile / 2][tile % 2][element];
    *y = a.add ? *y + sum : sum;
  }
}

template <class Block>
void multiply_many(const ProductArgs& a, Stream stream) {
  const simt::Grid grid{panels_of(a), static_cast<unsigned>(divide_up(a.tokens, kTileTokens))};
  simt::launch(&many_tokens<Block>, grid, kManyThreads, sizeof(ManyShared), stream, a);
}

template <class Block>
void multiply(const ProductArgs& a, Stream stream) {
  if (a.tokens == 0 || panels_of(a) == 0) return;
  if (a.tokens <= kFewTokens) return multiply_few<Block>(a, stream);
  multiply_many<Block>(a, stream);
}

}  // namespace
}  // namespace yamata::cuda
