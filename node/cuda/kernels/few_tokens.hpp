#pragma once
// Products of quantized weights with 2 to 16 tokens, on tensor cores: the integer sums of a block of 32 are exact in any order.
//
// One thread block per panel of 32 rows. Four warps load: they copy stages of eight blocks of columns, with the tokens' activations, into a
// ring in shared memory, some stages ahead, and decode the scales of the next stage. Four warps multiply: each computes the integer sums of
// 8 rows and all tokens, and adds the floats in the order of the blocks, in registers. There is one barrier per stage.
#include "node/cuda/kernels/one_token.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kFewWarps = 4, kLoaders = kFewWarps * simt::kWarp, kFewThreads = 2 * kLoaders;
constexpr unsigned kStageBlocks = 8, kWarpRows = kPanelRows / kFewWarps;
constexpr unsigned kStageWords = kStageBlocks * 8;  ///< of a token

template <class Block, unsigned kTokens>
struct FewTokens {
  static constexpr cpu::PanelFormat kFormat = cpu::kPanelFormat<Block>;
  static constexpr bool kHasMin = kFormat.has_min(), kHasSub = kFormat.has_sub_blocks(), kHasSubMin = kHasMin && kHasSub;
  static constexpr unsigned kStageBytes = kStageBlocks / BlockLayout<Block>::kBlocks * BlockLayout<Block>::kGroupBytes;

  static constexpr bool kAdjacent = kAdjacentSteps<Block>;
  // Lines of 128 bytes are padded, and so are tokens: the lanes of a warp read from different banks.
  static constexpr unsigned kLine = 128, kPadding = 32, kXPadding = kAdjacent ? 8 : 4;
  static constexpr YAMATA_DEVICE unsigned padded(unsigned at) { return at + at / kLine * kPadding; }

  /// As copied.
  struct Stage {
    alignas(16) std::uint8_t weights[(kStageBytes / kLine + 1) * (kLine + kPadding)];
    alignas(16) std::uint32_t x[kTokens][kStageWords + kXPadding];
    float x_scales[kTokens][kStageBlocks];
    std::uint32_t x_sums[kHasMin ? kTokens : 1][kStageBlocks];
  };
  /// Decoded.
  struct Scales {
    alignas(8) float d[kStageBlocks][kPanelRows];
    alignas(8) float m[kHasMin ? kStageBlocks : 1][kHasMin ? kPanelRows : 1];
    alignas(8) std::uint32_t sub[kHasSub ? kStageBlocks : 1][kHasSub ? kPanelRows : 1];            // two of 16 bits
    alignas(8) std::uint32_t sub_min[kHasSubMin ? kStageBlocks : 1][kHasSubMin ? kPanelRows : 1];  // likewise
    /// A token's scale; the sum of its activations, as the minimum needs it: two integers of 16 bits, or scaled.
    struct alignas(8) OfToken {
      float scale, sum;
    } tokens[kStageBlocks][kTokens];
  };
  static constexpr unsigned kDepth = ring_stages(sizeof(Stage), 2 * sizeof(Scales), 5);
  static_assert(kDepth >= 3);
  struct Shared {
    Stage ring[kDepth];
    Scales scales[2];
  };

  class Loader;
  template <unsigned kCount>
  class Blocks;
};

/// What one of the loading threads copies of each stage: pieces of 16 bytes of the weights and of the activations, and one scale.
template <class Block, unsigned kTokens>
class FewTokens<Block, kTokens>::Loader {
 public:
  YAMATA_DEVICE Loader(const ProductArgs& a, const std::uint8_t* panel)
      : id_(simt::thread() - kLoaders), left_(static_cast<unsigned>(a.x8.blocks)), weights_(panel + id_ * kPiece) {
    for (unsigned i = 0; i < kXPieces; ++i) {
      const unsigned at = i * kLoaders + id_;
      has_x_[i] = simt::within(at / kTokenPieces, a.tokens);
      x_[i] = a.x8.values + static_cast<std::size_t>(at / kTokenPieces * left_) * 32 + at % kTokenPieces * kPiece;
    }
    has_scale_ = simt::within(token(), a.tokens) && token() < kTokens;
    x_scales_ = a.x8.scales + token() * left_ + block();
    x_sums_ = reinterpret_cast<const std::uint32_t*>(a.x8.sub_sums) + token() * left_ + block();
  }

  /// Begins to copy the next stage, if there is one.
  YAMATA_DEVICE void copy(Stage& to) {
    if (left_ > 0) copy_blocks(to);
    left_ = left_ > kStageBlocks ? left_ - kStageBlocks : 0;
    simt::commit_copies();
  }

  YAMATA_DEVICE void decode(const Stage& from, Scales& to) const {
    const unsigned row = simt::lane();
    constexpr unsigned kOwn = kStageBlocks / kFewWarps;
    RawScales raw[kOwn];
    YAMATA_UNROLL
    for (unsigned i = 0; i < kOwn; ++i)
      raw[i] = ScalesAt<Block>(first_block() + i * kFewWarps, row).read([&](unsigned at) { return from.weights + padded(at); });
    YAMATA_UNROLL
    for (unsigned i = 0; i < kOwn; ++i) {
      const unsigned b = first_block() + i * kFewWarps;
      const RowScales scales = decode_scales<Block>(raw[i], b, row);
      to.d[b][row] = scales.d;
      if constexpr (kHasMin) to.m[b][row] = scales.m;
      if constexpr (kHasSub) to.sub[b][row] = two(scales.sub);
      if constexpr (kHasSubMin) to.sub_min[b][row] = two(scales.sub_min);
    }
    if (!has_scale_) return;
    typename Scales::OfToken& mine = to.tokens[block()][token()];
    mine.scale = from.x_scales[token()][block()];
    if constexpr (kHasMin) {
      const std::uint32_t sums = from.x_sums[token()][block()];
      mine.sum = kHasSub ? simt::float_of_bits(sums) : scaled_sum(mine.scale, sums);
    }
  }

 private:
  static constexpr unsigned kPiece = 16, kTokenPieces = kStageWords * 4 / kPiece;
  static constexpr unsigned kPieces = (kStageBytes + kPiece * kLoaders - 1) / (kPiece * kLoaders),
                            kXPieces = kTokens * kTokenPieces / kLoaders;

  YAMATA_DEVICE unsigned token() const { return id_ / kStageBlocks; }
  YAMATA_DEVICE unsigned block() const { return id_ % kStageBlocks; }
  YAMATA_DEVICE unsigned first_block() const { return id_ / simt::kWarp; }
  static YAMATA_DEVICE std::uint32_t two(const int (&numbers)[2]) {
    return (static_cast<std::uint32_t>(numbers[0]) & 0xffffu) | static_cast<std::uint32_t>(numbers[1]) << 16;
  }

  /// The last stage may have fewer blocks.
  YAMATA_DEVICE void copy_blocks(Stage& to) {
    const unsigned bytes = (left_ < kStageBlocks ? left_ : kStageBlocks) * (kStageBytes / kStageBlocks);
    YAMATA_UNROLL
    for (unsigned i = 0; i < kPieces; ++i) {
      const unsigned at = (i * kLoaders + id_) * kPiece;
      if (simt::within(at, bytes)) simt::copy_async<kPiece>(to.weights + padded(at), weights_ + i * kLoaders * kPiece);
    }
    YAMATA_UNROLL
    for (unsigned i = 0; i < kXPieces; ++i) {
      const unsigned at = i * kLoaders + id_, piece = at % kTokenPieces;
      if (has_x_[i] && simt::within(piece / 2, left_)) simt::copy_async<kPiece>(to.x[at / kTokenPieces] + piece * 4, x_[i]);
      x_[i] += kStageWords * 4;
    }
    if (has_scale_ && simt::within(block(), left_)) {
      simt::copy_async<4>(&to.x_scales[token()][block()], x_scales_);
      if constexpr (kHasMin) simt::copy_async<4>(&to.x_sums[token()][block()], x_sums_);
    }
    weights_ += kStageBytes, x_scales_ += kStageBlocks, x_sums_ += kStageBlocks;
  }

  unsigned id_, left_;
  const std::uint8_t* weights_;
  const std::int8_t* x_[kXPieces];
  const float* x_scales_;
  const std::uint32_t* x_sums_;
  bool has_x_[kXPieces], has_scale_;
};

/// Adds some adjacent blocks of a stage to the sums of a multiplying warp's lane: rows 2(l%4) and 2(l%4) + 1 of the warp's, token l/4, and
/// that plus 8. Everything is read first.
template <class Block, unsigned kTokens>
template <unsigned kCount>
class FewTokens<Block, kTokens>::Blocks {
 public:
  YAMATA_DEVICE Blocks(const Stage& stage, const Scales& scales, unsigned first) {
    YAMATA_UNROLL
    for (unsigned i = 0; i < kCount; ++i) {
      const unsigned b = first + i, rows = simt::warp() * kWarpRows + 2 * (simt::lane() % 4);
      read_weights(stage, i, b);
      for (unsigned n = 0; n < kTokens / 8; ++n) {
        const std::uint32_t* x = stage.x[group() + 8 * n] + b * 8;
        x_[i][n] = x[step(0)], x_[i][n + 2] = x[step(1)];
        tokens_[i][n] = scales.tokens[b][group() + 8 * n];
      }
      for (unsigned r = 0; r < 2; ++r) {
        scales_[i][r].d = scales.d[b][rows + r];
        if constexpr (kHasMin) scales_[i][r].m = scales.m[b][rows + r];
        if constexpr (kHasSub) put(scales.sub[b][rows + r], scales_[i][r].sub);
        if constexpr (kHasSubMin) put(scales.sub_min[b][rows + r], scales_[i][r].sub_min);
      }
    }
  }

  YAMATA_DEVICE void add_to(float (&sums)[kTokens / 8][2]) const {
    float whole[kCount][4];
    YAMATA_UNROLL
    for (unsigned i = 0; i < kCount; ++i) multiply(i, whole[i]);
    YAMATA_UNROLL
    for (unsigned i = 0; i < kCount; ++i) {
      YAMATA_UNROLL
      for (unsigned n = 0; n < kTokens / 8; ++n) {
        const auto& [scale, sum] = tokens_[i][n];
        YAMATA_UNROLL
        for (unsigned r = 0; r < 2; ++r) {
          const RowScales& row = scales_[i][r];
          sums[n][r] = simt::fma(whole[i][2 * n + r], row.d * scale, sums[n][r]);
          if constexpr (kHasSubMin) {
            sums[n][r] = simt::fma(sub_minimum(row, simt::bits_of(sum)), row.m * scale, sums[n][r]);
          } else if constexpr (kHasMin) {
            sums[n][r] = simt::fma(row.m, sum, sums[n][r]);
          }
        }
      }
    }
  }

 private:
  static YAMATA_DEVICE unsigned group() { return simt::lane() / 4; }
  static YAMATA_DEVICE unsigned step(unsigned i) { return lane_step<Block>(i); }
  static YAMATA_DEVICE void put(std::uint32_t two, int (&to)[2]) { to[0] = first_half(two), to[1] = second_half(two); }

  YAMATA_DEVICE void read_weights(const Stage& stage, unsigned i, unsigned b) {
    const unsigned at = BlockLayout<Block>::words_at(b), row = (simt::warp() * kWarpRows + group()) * 4;
    const std::uint8_t* planes = stage.weights + padded(at % kLine + row) + at / kLine * (kLine + kPadding);
    const auto word = [&](unsigned plane) { return *reinterpret_cast<const std::uint32_t*>(planes + plane * (kLine + kPadding)); };
    low_[i][0] = word(step(0) / kLowSteps<Block>);
    low_[i][1] = kAdjacent ? low_[i][0] : word(step(1) / kLowSteps<Block>);
    high_[i][0] = high_[i][1] = 0;
    if constexpr (kFormat.high_bits > 0) {
      high_[i][0] = word(kFormat.low_bits + step(0) / kHighSteps<Block>);
      high_[i][1] = kHighSteps<Block> == 8 ? high_[i][0] : word(kFormat.low_bits + step(1) / kHighSteps<Block>);
    }
  }

  /// The integer sums: [n][r] of the lane's tokens and rows.
  YAMATA_DEVICE void multiply(unsigned i, float (&whole)[4]) const {
    const std::uint32_t weights[2] = {unpack_step<Block>(low_[i][0], high_[i][0], step(0)),
                                      unpack_step<Block>(low_[i][1], high_[i][1], step(1))};
    if constexpr (kHasSub) {
      int halves[2][4];
      simt::mma_k16(halves[0], x_[i][0], x_[i][1], weights[0], 0);
      simt::mma_k16(halves[1], x_[i][2], x_[i][3], weights[1], 0);
      for (unsigned j = 0; j < 4; ++j) whole[j] = static_cast<float>(whole_sum<Block>({halves[0][j], halves[1][j]}, scales_[i][j % 2]));
    } else {
      int sums[4];
      simt::mma_k32(sums, x_[i], weights, kRoundBits);
      for (unsigned j = 0; j < 4; ++j) whole[j] = float_of_sum(sums[j]);
    }
  }

  std::uint32_t low_[kCount][2], high_[kCount][2], x_[kCount][4] = {};
  RowScales scales_[kCount][2];
  typename Scales::OfToken tokens_[kCount][kTokens / 8];
};

/// The loading warps. When the others begin a stage, its scales are decoded, and the stage after it is copied.
template <class Block, unsigned kTokens>
YAMATA_DEVICE void load_stages(const ProductArgs& a, const PanelOfPart& place, unsigned stages,
                               typename FewTokens<Block, kTokens>::Shared& shared) {
  constexpr unsigned kDepth = FewTokens<Block, kTokens>::kDepth;
  typename FewTokens<Block, kTokens>::Loader loader(a, place.weights(a));
  YAMATA_UNROLL
  for (unsigned s = 0; s + 1 < kDepth; ++s) loader.copy(shared.ring[s]);
  simt::wait_copies<kDepth - 2>();
  simt::sync_block();
  for (unsigned s = 0, next = 0; s < stages; ++s) {  // next: where stage s is in the ring
    loader.decode(shared.ring[next], shared.scales[s % 2]);
    simt::wait_copies<kDepth - 3>();
    simt::sync_block();
    loader.copy(shared.ring[next == 0 ? kDepth - 1 : next - 1]);
    next = next + 1 == kDepth ? 0 : next + 1;
  }
}

/// The multiplying warps.
template <class Block, unsigned kTokens>
YAMATA_DEVICE void multiply_stages(const ProductArgs& a, const PanelOfPart& place, unsigned stages,
                                   const typename FewTokens<Block, kTokens>::Shared& shared) {
  using Kernel = FewTokens<Block, kTokens>;
  constexpr unsigned kTogether = 4;
  float sums[kTokens / 8][2] = {};
  simt::sync_block();
  for (unsigned s = 0, at = 0; s < stages; ++s) {
    simt::sync_block();
    const auto& stage = shared.ring[at];
    const auto& scales = shared.scales[s % 2];
    const unsigned left = static_cast<unsigned>(a.x8.blocks) - s * kStageBlocks;
    if (left >= kStageBlocks) {
      YAMATA_UNROLL
      for (unsigned b = 0; b < kStageBlocks; b += kTogether) typename Kernel::template Blocks<kTogether>(stage, scales, b).add_to(sums);
    } else {
      for (unsigned b = 0; b < left; ++b) typename Kernel::template Blocks<1>(stage, scales, b).add_to(sums);
    }
    at = at + 1 == Kernel::kDepth ? 0 : at + 1;
  }
  for (unsigned n = 0; n < kTokens / 8; ++n) {
    const unsigned token = simt::lane() / 4 + 8 * n;
    if (!simt::within(token, a.tokens)) return;
    for (unsigned r = 0; r < 2; ++r) place.store(a, token, simt::warp() * kWarpRows + 2 * (simt::lane() % 4) + r, sums[n][r]);
  }
}

template <class Block, unsigned kTokens>
YAMATA_KERNEL void YAMATA_BOUNDS(kFewThreads) few_tokens(const ProductArgs a) {
  auto& shared = *simt::shared<typename FewTokens<Block, kTokens>::Shared>();
  const PanelOfPart place(a);
  const unsigned stages = static_cast<unsigned>(divide_up(a.x8.blocks, kStageBlocks));
  if (simt::warp() >= kFewWarps) return load_stages<Block, kTokens>(a, place, stages, shared);
  multiply_stages<Block, kTokens>(a, place, stages, shared);
}

template <class Block, unsigned kTokens>
void launch_few(const ProductArgs& a, Stream stream) {
  simt::launch(&few_tokens<Block, kTokens>, {panels_of(a), 1}, kFewThreads, sizeof(typename FewTokens<Block, kTokens>::Shared), stream, a);
}

template <class Block>
void multiply_few(const ProductArgs& a, Stream stream) {
  if (a.tokens == 1) return multiply_one<Block>(a, stream);
  if (a.tokens <= 8) return launch_few<Block, 8>(a, stream);
  launch_few<Block, 16>(a, stream);
}

}  // namespace
}  // namespace yamata::cuda
