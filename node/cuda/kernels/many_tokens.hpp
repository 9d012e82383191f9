#pragma once
// Products of quantized weights with many tokens, on tensor cores: the integer sums of a block of 32 are exact in any order.
//
// A thread block computes some panels of 32 rows for some tokens; each warp one of these panels for a part of the tokens. In each stage,
// a few blocks of columns are in shared memory, weights unpacked to bytes, and the next stage's are being loaded into registers. The
// floating-point sums stay in registers.
#include "node/cuda/kernels/few_tokens.hpp"

namespace yamata::cuda {
namespace {

/// What a thread block computes: a panel for each warp, by kTokenWarps times kWarpTokens tokens. kStage: blocks of 32 columns per stage.
template <int kPanelsOf, int kTokenWarps, int kWarpTokensOf, int kStageOf>
struct ManyTile {
  static constexpr int kPanels = kPanelsOf, kRows = kPanels * static_cast<int>(kPanelRows), kWarpTokens = kWarpTokensOf,
                       kTokens = kTokenWarps * kWarpTokens;
  static constexpr int kWarps = kPanels * kTokenWarps, kThreads = kWarps * static_cast<int>(simt::kWarp);
  static constexpr int kStage = kStageOf;
};

struct alignas(8) Words2 {
  std::uint32_t word[2];
};
struct alignas(8) Floats2 {
  float value[2];
};

/// Activations of a block of 32. Steps i and i + 4 are adjacent: a lane of mma_k32 reads them together.
struct alignas(16) XBlock {
  Words2 steps[4];
};

template <class Block, class Tile>
struct ManyShared {
  static constexpr cpu::PanelFormat kFormat = cpu::kPanelFormat<Block>;
  static constexpr bool kSub = kFormat.has_sub_blocks(), kMin = kFormat.has_min() && !kSub, kSubMin = kFormat.has_min() && kSub;
  static constexpr int kStage = Tile::kStage;
  struct Stage {
    std::uint32_t weights[kStage][8][Tile::kRows + 8];  // the lanes of a warp read from different banks
    XBlock x[kStage][Tile::kTokens];
    float d[kStage][Tile::kRows], scales[kStage][Tile::kTokens];
    float m[kMin || kSubMin ? kStage : 1][Tile::kRows];
    float sums[kMin ? kStage : 1][Tile::kTokens];  // of a block's activations
    std::int8_t sub[kSub ? kStage : 1][Tile::kRows][2], sub_min[kSubMin ? kStage : 1][Tile::kRows][2];
    Floats2 sub_sums[kSubMin ? kStage : 1][Tile::kTokens];
  } stages[2];  // one is computed, one filled
};

/// What a thread loads of a stage.
template <class Block, class Tile>
struct Ahead {
  static constexpr int kPairs = Tile::kPanels * Tile::kStage, kWeights = (kPairs + Tile::kWarps - 1) / Tile::kWarps;
  static constexpr int kUnits = Tile::kTokens * Tile::kStage, kX = (kUnits + Tile::kThreads - 1) / Tile::kThreads;
  using Shared = ManyShared<Block, Tile>;
  BlockWords<Block> words[kWeights] = {};
  RawScales raw[kWeights] = {};
  simt::Words4 x[kX][2] = {};
  float scales[kX] = {};
  std::uint32_t sub_sums[kX] = {};  // two of 16 bits

  /// Each warp loads blocks of panels, a row per lane; each thread blocks of tokens. Missing ones leave old data in shared memory, whose
  /// results are not stored.
  YAMATA_DEVICE void load(const ProductArgs& a, const ProductArgs::Part& part, std::int64_t panel, std::int64_t token, std::int64_t first) {
    YAMATA_UNROLL
    for (int i = 0; i < kWeights; ++i) {
      const int pair = static_cast<int>(simt::warp()) + i * Tile::kWarps, p = pair % Tile::kPanels, b = pair / Tile::kPanels;
      if (kPairs % Tile::kWarps != 0 && pair >= kPairs) continue;
      if (!simt::within((panel + p) * kPanelRows, part.end) || !simt::within(first + b, a.x8.blocks)) continue;
      const auto* from =
          reinterpret_cast<const std::uint8_t*>(part.panels) + static_cast<std::size_t>(panel + p) * kPanelRows * a.row_bytes;
      const auto block = static_cast<unsigned>(first + b);
      raw[i] = ScalesAt<Block>(block, simt::lane()).read([&](unsigned at) { return from + at; });
      words[i].read(reinterpret_cast<const std::uint32_t*>(from + BlockLayout<Block>::words_at(block)) + simt::lane());
    }
    YAMATA_UNROLL
    for (int i = 0; i < kX; ++i) {
      const int unit = static_cast<int>(simt::thread()) + i * Tile::kThreads, b = unit % Tile::kStage, t = unit / Tile::kStage;
      if (kUnits % Tile::kThreads != 0 && unit >= kUnits) continue;
      if (!simt::within(first + b, a.x8.blocks) || !simt::within(token + t, a.tokens)) continue;
      const std::int64_t at = (token + t) * a.x8.blocks + first + b;
      const auto* values = reinterpret_cast<const simt::Words4*>(a.x8.values + 32 * at);
      x[i][0] = values[0], x[i][1] = values[1];
      scales[i] = a.x8.scales[at];
      if constexpr (Shared::kFormat.has_min()) sub_sums[i] = reinterpret_cast<const std::uint32_t*>(a.x8.sub_sums)[at];
    }
  }

  YAMATA_DEVICE void store(std::int64_t first, typename Shared::Stage& stage) const {
    const unsigned row = simt::lane();
    YAMATA_UNROLL
    for (int i = 0; i < kWeights; ++i) {
      const int pair = static_cast<int>(simt::warp()) + i * Tile::kWarps, b = pair / Tile::kPanels;
      if (kPairs % Tile::kWarps != 0 && pair >= kPairs) continue;
      const unsigned at = static_cast<unsigned>(pair % Tile::kPanels) * kPanelRows + row;
      const RowScales s = decode_scales<Block>(raw[i], static_cast<unsigned>(first + b), row);
      for (unsigned j = 0; j < 8; ++j) stage.weights[b][j][at] = step_word<Block>(words[i], j);
      stage.d[b][at] = s.d;
      if constexpr (Shared::kFormat.has_min()) stage.m[b][at] = s.m;
      for (int j = 0; j < 2; ++j) {
        if constexpr (Shared::kSub) stage.sub[b][at][j] = static_cast<std::int8_t>(s.sub[j]);
        if constexpr (Shared::kSubMin) stage.sub_min[b][at][j] = static_cast<std::int8_t>(s.sub_min[j]);
      }
    }
    YAMATA_UNROLL
    for (int i = 0; i < kX; ++i) {
      const int unit = static_cast<int>(simt::thread()) + i * Tile::kThreads, b = unit % Tile::kStage, t = unit / Tile::kStage;
      if (kUnits % Tile::kThreads != 0 && unit >= kUnits) continue;
      auto* words4 = reinterpret_cast<simt::Words4*>(&stage.x[b][t]);
      for (int j = 0; j < 2; ++j)
        words4[j] = {{x[i][0].word[2 * j], x[i][1].word[2 * j], x[i][0].word[2 * j + 1], x[i][1].word[2 * j + 1]}};
      stage.scales[b][t] = scales[i];
      const int sum0 = static_cast<std::int16_t>(sub_sums[i]), sum1 = static_cast<std::int16_t>(sub_sums[i] >> 16);
      if constexpr (Shared::kMin) stage.sums[b][t] = scales[i] * static_cast<float>(sum0 + sum1);
      if constexpr (Shared::kSubMin) stage.sub_sums[b][t] = {static_cast<float>(sum0), static_cast<float>(sum1)};
    }
  }
};

/// What a lane needs of a block of its warp's panel: rows 2 group, + 1, + 16, + 17, which are rows group and group + 8 of two products.
template <class Block, class Tile>
struct LaneWeightsOf {
  using Shared = ManyShared<Block, Tile>;
  std::uint32_t words[2][4];
  float d[4], m[4], sub[4][2], sub_min[4][2];
  YAMATA_DEVICE LaneWeightsOf(const typename Shared::Stage& stage, int b, int row) {
    const int group = static_cast<int>(simt::lane()) / 4, step = static_cast<int>(simt::lane()) % 4;
    for (int i = 0; i < 4; ++i) {
      const Words2 pair = *reinterpret_cast<const Words2*>(&stage.weights[b][step + i % 2 * 4][row + 2 * group + i / 2 * 16]);
      words[i / 2][i % 2 * 2] = pair.word[0], words[i / 2][i % 2 * 2 + 1] = pair.word[1];
    }
    for (int i = 0; i < 4; ++i) {
      const int at = row + 2 * group + i / 2 * 16 + i % 2;
      d[i] = stage.d[b][at];
      if constexpr (Shared::kFormat.has_min()) m[i] = stage.m[b][at];
      for (int j = 0; j < 2; ++j) {
        if constexpr (Shared::kSub) sub[i][j] = static_cast<float>(stage.sub[b][at][j]);
        if constexpr (Shared::kSubMin) sub_min[i][j] = static_cast<float>(stage.sub_min[b][at][j]);
      }
    }
  }
};

/// The integer sums of 16 rows and 8 tokens, distributed over the lanes as by mma_k32. All are below 2^24, so floats hold them.
template <class Block, class Tile>
YAMATA_DEVICE void whole_tile(const LaneWeightsOf<Block, Tile>& w, int rows, const Words2& x, float (&whole)[4]) {
  const std::uint32_t (&words)[4] = w.words[rows];
  if constexpr (cpu::kPanelFormat<Block>.has_sub_blocks()) {
    int half[2][4];
    for (int i = 0; i < 2; ++i) simt::mma_k16(half[i], words[2 * i], words[2 * i + 1], x.word[i], kRoundBits);
    for (int i = 0; i < 4; ++i) {
      const float (&sub)[2] = w.sub[2 * rows + i / 2];
      whole[i] = simt::fma(sub[1], float_of_sum(half[1][i]), simt::fma(sub[0], float_of_sum(half[0][i]), 0.0f));
    }
  } else {
    int sums[4];
    simt::mma_k32(sums, words, x.word, kRoundBits);
    for (int i = 0; i < 4; ++i) whole[i] = float_of_sum(sums[i]);
  }
}

/// Adds a block to the warp's sums: [8 tokens][16 rows][a lane's elements]. In the order of add_block.
template <class Block, class Tile>
YAMATA_DEVICE void add_tiles(const typename ManyShared<Block, Tile>::Stage& stage, int b, int row, int token,
                             float (&sums)[Tile::kWarpTokens / 8][2][4]) {
  using Shared = ManyShared<Block, Tile>;
  const int group = static_cast<int>(simt::lane()) / 4, step = static_cast<int>(simt::lane()) % 4;
  const LaneWeightsOf<Block, Tile> w(stage, b, row);
  YAMATA_UNROLL
  for (int n = 0; n < Tile::kWarpTokens / 8; ++n) {
    const int first = token + 8 * n, pair = first + 2 * step;
    const Words2 x = stage.x[b][first + group].steps[step];
    const Floats2 scales = *reinterpret_cast<const Floats2*>(&stage.scales[b][pair]);
    Floats2 minimum{};
    if constexpr (Shared::kMin) minimum = *reinterpret_cast<const Floats2*>(&stage.sums[b][pair]);
    YAMATA_UNROLL
    for (int rows = 0; rows < 2; ++rows) {
      float whole[4];
      whole_tile<Block, Tile>(w, rows, x, whole);
      YAMATA_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int r = 2 * rows + i / 2;
        float sum = simt::fma(whole[i], w.d[r] * scales.value[i % 2], sums[n][rows][i]);
        if constexpr (Shared::kMin) sum = simt::fma(w.m[r], minimum.value[i % 2], sum);
        if constexpr (Shared::kSubMin) {
          const Floats2 sub_sums = stage.sub_sums[b][pair + i % 2];
          const float products = simt::fma(w.sub_min[r][1], sub_sums.value[1], simt::fma(w.sub_min[r][0], sub_sums.value[0], 0.0f));
          sum = simt::fma(products, w.m[r] * scales.value[i % 2], sum);
        }
        sums[n][rows][i] = sum;
      }
    }
  }
}

/// Stores the warp's sums. All are read before the first is written, so that reads need not wait for writes.
template <class Tile>
YAMATA_DEVICE void store_tiles(const ProductArgs& a, const ProductArgs::Part& part, std::int64_t row, std::int64_t token,
                               float (&sums)[Tile::kWarpTokens / 8][2][4]) {
  const std::int64_t first_row = row + simt::lane() / 4 * 2, first_token = token + simt::lane() % 4 * 2;
  const auto for_each = [&](auto&& use) {
    YAMATA_UNROLL
    for (int n = 0; n < Tile::kWarpTokens / 8; ++n) {
      YAMATA_UNROLL
      for (int i = 0; i < 8; ++i) {
        const std::int64_t r = first_row + i / 4 * 16 + i / 2 % 2, t = first_token + n * 8 + i % 2;
        if (r >= part.begin && simt::within(r, part.end) && simt::within(t, a.tokens)) use(part.y[t * part.ldy + r], sums[n][i / 4][i % 4]);
      }
    }
  };
  if (a.add) for_each([](const float& y, float& sum) { sum += y; });
  for_each([](float& y, float sum) { y = sum; });
}

template <class Tile>
constexpr std::int64_t tiles_of(const ProductArgs::Part& part) {
  return divide_up(panels_of(part), Tile::kPanels);
}

template <class Block, class Tile>
YAMATA_KERNEL void YAMATA_BOUNDS(Tile::kThreads, 1) many_tokens(const ProductArgs a) {
  auto* stages = simt::shared<ManyShared<Block, Tile>>()->stages;
  std::int64_t tile = simt::block_y();
  int p = 0;
  for (; p + 1 < a.part_count && tile >= tiles_of<Tile>(a.parts[p]); ++p) tile -= tiles_of<Tile>(a.parts[p]);
  const ProductArgs::Part& part = a.parts[p];
  const std::int64_t panel = part.begin / kPanelRows + tile * Tile::kPanels;
  const std::int64_t first_token = static_cast<std::int64_t>(simt::block_x()) * Tile::kTokens;
  const int row = static_cast<int>(simt::warp()) % Tile::kPanels * kPanelRows;
  const int token = static_cast<int>(simt::warp()) / Tile::kPanels * Tile::kWarpTokens;
  float sums[Tile::kWarpTokens / 8][2][4] = {};
  Ahead<Block, Tile> ahead;
  ahead.load(a, part, panel, first_token, 0);
  for (std::int64_t first = 0, s = 0; first < a.x8.blocks; first += Tile::kStage, ++s) {
    ahead.store(first, stages[s % 2]);
    simt::sync_block();
    ahead.load(a, part, panel, first_token, first + Tile::kStage);
    for (int b = 0; b < Tile::kStage; ++b) {
      if constexpr (cpu::kPanelFormat<Block>.blocks() % Tile::kStage != 0) {
        if (!simt::within(first + b, a.x8.blocks)) break;
      }
      add_tiles<Block, Tile>(stages[s % 2], b, row, token, sums);
    }
  }
  store_tiles<Tile>(a, part, panel * kPanelRows + row, first_token + token, sums);
}

template <class Block, class Tile>
void multiply_many(const ProductArgs& a, Stream stream) {
  static_assert(sizeof(ManyShared<Block, Tile>) <= 48 << 10);
  std::int64_t tiles = 0;
  for (int i = 0; i < a.part_count; ++i) tiles += tiles_of<Tile>(a.parts[i]);
  const simt::Grid grid{static_cast<unsigned>(divide_up(a.tokens, Tile::kTokens)), static_cast<unsigned>(tiles)};
  simt::launch(&many_tokens<Block, Tile>, grid, Tile::kThreads, sizeof(ManyShared<Block, Tile>), stream, a);
}

template <class Block>
void multiply(const ProductArgs& a, Stream stream) {
  if (a.tokens == 0 || panels_of(a) == 0) return;
  if (a.tokens <= kFewTokens) return multiply_few<Block>(a, stream);
  // The more tokens, the larger a tile may be and still occupy all multiprocessors.
  if (a.tokens <= 32) return multiply_many<Block, ManyTile<2, 4, 8, 4>>(a, stream);
  if (a.tokens <= 128) return multiply_many<Block, ManyTile<2, 4, 16, 4>>(a, stream);
  multiply_many<Block, ManyTile<4, 2, 32, 2>>(a, stream);
}

}  // namespace
}  // namespace yamata::cuda
