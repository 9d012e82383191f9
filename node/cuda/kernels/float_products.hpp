#pragma once
// Products of floating-point weights. Half a warp computes a sum in 16 lanes; lane l adds columns l, l + 16, l + 32 and so on.
//
// A packed row consists of groups of 128 columns. The 8 weights that a lane reads of a group are adjacent. Padding is not read.
//
// A thread has one lane of the sums of some rows and tokens. In each stage, the activations of a few groups are in shared memory, in the
// order in which lanes read them; the next stage's activations and weights are being loaded into registers.
#include <cstring>

#include "node/cuda/kernels/arithmetic.hpp"
#include "node/cuda/kernels/device_kernels.hpp"

namespace yamata::cuda {
namespace {

constexpr int kFloatLanes = 16, kPackFloatThreads = 256;
constexpr int kFloatSteps = 8;  // weights of a lane in a group
constexpr std::int64_t kFloatGroup = kFloatSteps * kFloatLanes;

/// What a thread block computes. kGroups: per stage. kMinBlocks, if not 0: thread blocks per multiprocessor, which limits registers.
template <int kThreadRowsOf, int kTokensOf, int kGroupsOf, int kThreadsOf, int kMinBlocksOf = 0>
struct FloatTile {
  static constexpr int kThreadRows = kThreadRowsOf, kTokens = kTokensOf, kGroups = kGroupsOf, kThreads = kThreadsOf;
  static constexpr int kMinBlocks = kMinBlocksOf;
  static constexpr int kRows = kThreads / kFloatLanes * kThreadRows;
};

struct FloatWeights {
  using Element = float;
  static YAMATA_DEVICE float widen(Element x) { return x; }
};
struct HalfWeights {
  using Element = std::uint16_t;
  static YAMATA_DEVICE float widen(Element x) { return simt::half_to_float(x); }
};
struct BrainWeights {
  using Element = std::uint16_t;
  static YAMATA_DEVICE float widen(Element x) { return simt::float_of_bits(static_cast<std::uint32_t>(x) << 16); }
};

/// Elements of a packed row.
constexpr std::int64_t packed_cols(std::int64_t cols) { return divide_up(cols, kFloatGroup) * kFloatGroup; }

template <class Weights>
YAMATA_KERNEL void YAMATA_BOUNDS(kPackFloatThreads) pack_floats(const PackArgs a) {
  using Element = typename Weights::Element;
  const std::int64_t row = a.begin + simt::block_x(), cols = packed_cols(a.cols);
  const auto* source = reinterpret_cast<const Element*>(a.source + static_cast<std::size_t>(row) * a.row_bytes);
  Element* out = reinterpret_cast<Element*>(a.panels) + row * cols;
  for (std::int64_t i = simt::thread(); i < cols; i += kPackFloatThreads) {
    const std::int64_t group = i / kFloatGroup * kFloatGroup, lane = i % kFloatGroup / kFloatSteps, step = i % kFloatSteps;
    const std::int64_t col = group + step * kFloatLanes + lane;
    out[i] = simt::within(col, a.cols) ? source[col] : Element{0};
  }
}

/// A lane's weights of a group, as they are loaded.
template <class Weights>
struct LaneWeights {
  using Element = typename Weights::Element;
  static constexpr int kLoads = kFloatSteps * static_cast<int>(sizeof(Element)) / static_cast<int>(sizeof(simt::Words4));
  simt::Words4 words[kLoads];
  YAMATA_DEVICE void load(const Element* from) {
    for (int i = 0; i < kLoads; ++i) words[i] = reinterpret_cast<const simt::Words4*>(from)[i];
  }
  YAMATA_DEVICE void widen(float (&to)[kFloatSteps]) const {
    Element all[kFloatSteps];
    std::memcpy(all, words, sizeof all);
    for (int i = 0; i < kFloatSteps; ++i) to[i] = Weights::widen(all[i]);
  }
};

struct alignas(16) Floats4 {
  float value[4];
};

/// A stage's activations: of each group and token, first all lanes' first four, then the others.
template <class Tile>
struct FloatStage {
  Floats4 x[Tile::kGroups][Tile::kTokens][2][kFloatLanes];
};

/// The activations that a thread loads of a stage.
template <class Tile>
class FloatsAhead {
  static constexpr int kPart = 2 * kFloatLanes, kUnits = Tile::kGroups * Tile::kTokens * kPart, kThreads = Tile::kThreads;
  static constexpr int kOwn = (kUnits + kThreads - 1) / kThreads;

 public:
  YAMATA_DEVICE FloatsAhead(const ProductArgs& a, std::int64_t token)
      : x_(a.x + token * a.cols), cols_(static_cast<int>(a.cols)), tokens_(static_cast<int>(a.tokens - token)) {}

  /// Missing tokens leave old data, whose results are not stored. Missing columns are 0, as on the CPU, if other lanes have one in that
  /// step. The steps after that add -0, which changes no sum.
  YAMATA_DEVICE void load(int group) {
    const int padded = static_cast<int>(divide_up(cols_, kFloatLanes) * kFloatLanes);
    const bool whole = (group + Tile::kGroups) * static_cast<int>(kFloatGroup) <= cols_;
    YAMATA_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const int unit = static_cast<int>(simt::thread()) + i * kThreads, part = unit % kPart, t = unit / kPart % Tile::kTokens;
      if (!has_unit(i) || !simt::within(t, tokens_)) continue;
      const int first = (group + unit / kPart / Tile::kTokens) * static_cast<int>(kFloatGroup) + part / kFloatLanes * (4 * kFloatLanes) +
                        part % kFloatLanes;
      const float* from = x_ + (static_cast<unsigned>(t * cols_) + static_cast<unsigned>(first));
      for (int j = 0; j < 4; ++j) {
        const int col = first + j * kFloatLanes;
        x[i].value[j] = whole || simt::within(col, cols_) ? from[j * kFloatLanes] : col < padded ? 0.0f : -0.0f;
      }
    }
  }
  YAMATA_DEVICE void store(FloatStage<Tile>& stage) const {
    YAMATA_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      if (has_unit(i)) (&stage.x[0][0][0][0])[static_cast<int>(simt::thread()) + i * kThreads] = x[i];
    }
  }

 private:
  static YAMATA_DEVICE bool has_unit(int i) { return kUnits % kThreads == 0 || static_cast<int>(simt::thread()) + i * kThreads < kUnits; }
  const float* x_;
  int cols_, tokens_;
  Floats4 x[kOwn] = {};
};

/// Adds a group to a thread's sums.
template <class Weights, class Tile>
YAMATA_DEVICE void add_group(const LaneWeights<Weights> (&weights)[Tile::kThreadRows], const Floats4 (&x)[Tile::kTokens][2][kFloatLanes],
                             float (&sums)[Tile::kTokens][Tile::kThreadRows]) {
  float w[Tile::kThreadRows][kFloatSteps];
  for (int r = 0; r < Tile::kThreadRows; ++r) weights[r].widen(w[r]);
  YAMATA_UNROLL
  for (int t = 0; t < Tile::kTokens; ++t) {
    for (int half = 0; half < 2; ++half) {
      const Floats4 some = x[t][half][simt::thread() % kFloatLanes];
      for (int i = 0; i < 4; ++i) {
        for (int r = 0; r < Tile::kThreadRows; ++r) sums[t][r] = simt::fma(w[r][4 * half + i], some.value[i], sums[t][r]);
      }
    }
  }
}

/// Adds up the lanes, and stores the results: each lane some of them.
template <class Tile>
YAMATA_DEVICE void store_sums(const ProductArgs& a, const ProductArgs::Part& part, std::int64_t first_row, std::int64_t first_token,
                              const float (&sums)[Tile::kTokens][Tile::kThreadRows]) {
  constexpr int kSums = Tile::kTokens * Tile::kThreadRows, kOwn = (kSums + kFloatLanes - 1) / kFloatLanes;
  const int lane = static_cast<int>(simt::thread()) % kFloatLanes;
  float own[kOwn] = {};
  YAMATA_UNROLL
  for (int i = 0; i < kSums; ++i) {
    const float sum = sum_of_16(sums[i / Tile::kThreadRows][i % Tile::kThreadRows]);
    if (lane == i % kFloatLanes) own[i / kFloatLanes] = sum;
  }
  YAMATA_UNROLL
  for (int i = 0; i < kOwn; ++i) {
    const int number = i * kFloatLanes + lane;
    const std::int64_t row = first_row + number % Tile::kThreadRows, token = first_token + number / Tile::kThreadRows;
    if (number >= kSums || !simt::within(row, part.end) || !simt::within(token, a.tokens)) continue;
    float* y = part.y + token * part.ldy + row;
    *y = a.add ? *y + own[i] : own[i];
  }
}

/// Tiles of the rows of a part.
template <class Tile>
constexpr std::int64_t float_tiles(const ProductArgs::Part& part) {
  return divide_up(part.end - part.begin, Tile::kRows);
}

template <class Weights, class Tile>
YAMATA_KERNEL void YAMATA_BOUNDS(Tile::kThreads, Tile::kMinBlocks) multiply_floats(const ProductArgs a) {
  auto* stages = simt::shared<FloatStage<Tile>>();
  std::int64_t tile = simt::block_y();
  int p = 0;
  for (; p + 1 < a.part_count && tile >= float_tiles<Tile>(a.parts[p]); ++p) tile -= float_tiles<Tile>(a.parts[p]);
  const ProductArgs::Part& part = a.parts[p];
  const std::int64_t first_row = part.begin + tile * Tile::kRows + simt::thread() / kFloatLanes * Tile::kThreadRows;
  const std::int64_t first_token = static_cast<std::int64_t>(simt::block_x()) * Tile::kTokens;
  const int groups = static_cast<int>(divide_up(a.cols, kFloatGroup));
  const auto* w = reinterpret_cast<const typename Weights::Element*>(part.panels) + first_row * (groups * kFloatGroup) +
                  simt::thread() % kFloatLanes * kFloatSteps;
  bool has_row[Tile::kThreadRows];
  for (int r = 0; r < Tile::kThreadRows; ++r) has_row[r] = simt::within(first_row + r, part.end);
  LaneWeights<Weights> weights[Tile::kGroups][Tile::kThreadRows] = {};
  const auto load = [&](int g, int group) {
    const bool has_group = simt::within(group, groups);
    YAMATA_UNROLL
    for (int r = 0; r < Tile::kThreadRows; ++r) {
      if (Tile::kGroups > 1) weights[g][r] = {};
      if (has_group && has_row[r]) weights[g][r].load(w + static_cast<unsigned>((r * groups + group) * static_cast<int>(kFloatGroup)));
    }
  };
  float sums[Tile::kTokens][Tile::kThreadRows] = {};
  FloatsAhead<Tile> ahead(a, first_token);
  ahead.load(0);
  YAMATA_UNROLL
  for (int g = 0; g < Tile::kGroups; ++g) load(g, g);
  for (int group = 0, s = 0; group < groups; group += Tile::kGroups, ++s) {
    ahead.store(stages[s % 2]);
    simt::sync_block();
    ahead.load(group + Tile::kGroups);
    YAMATA_UNROLL
    for (int g = 0; g < Tile::kGroups; ++g) {
      add_group<Weights, Tile>(weights[g], stages[s % 2].x[g], sums);
      load(g, group + Tile::kGroups + g);
    }
  }
  store_sums<Tile>(a, part, first_row, first_token, sums);
}

template <class Weights, class Tile>
void launch_floats(const ProductArgs& a, Stream stream) {
  static_assert(2 * sizeof(FloatStage<Tile>) <= 48 << 10);
  std::int64_t tiles = 0;
  for (int i = 0; i < a.part_count; ++i) tiles += float_tiles<Tile>(a.parts[i]);
  const simt::Grid grid{static_cast<unsigned>(divide_up(a.tokens, Tile::kTokens)), static_cast<unsigned>(tiles)};
  if (tiles > 0) simt::launch(&multiply_floats<Weights, Tile>, grid, Tile::kThreads, 2 * sizeof(FloatStage<Tile>), stream, a);
}

template <class Weights>
void multiply_float_rows(const ProductArgs& a, Stream stream) {
  if (a.tokens == 1) return launch_floats<Weights, FloatTile<1, 1, 8, 128>>(a, stream);
  if (a.tokens <= 4) return launch_floats<Weights, FloatTile<2, 4, 4, 128, 3>>(a, stream);
  if (a.tokens <= 8) return launch_floats<Weights, FloatTile<2, 8, 2, 128, 3>>(a, stream);
  constexpr int kThreadRows = sizeof(typename Weights::Element) == 2 ? 8 : 4;
  launch_floats<Weights, FloatTile<kThreadRows, 8, 1, 128>>(a, stream);
}

template <class Weights>
void pack_float_rows(const PackArgs& a, Stream stream) {
  if (a.begin < a.end) simt::launch(&pack_floats<Weights>, {static_cast<unsigned>(a.end - a.begin), 1}, kPackFloatThreads, 0, stream, a);
}

}  // namespace
}  // namespace yamata::cuda
