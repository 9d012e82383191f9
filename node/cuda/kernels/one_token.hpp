#pragma once
// Products of quantized weights with one token.
//
// One thread block per panel of 32 rows. In each stage, the multiplying warps divide the panel's blocks of 32 columns among themselves, a
// lane for each row. They compute integer sums, and the factors of each block's floats, and write them into shared memory; what they read
// for the next stage is on its way meanwhile. One more warp adds the floats in the order of the blocks, a stage behind the others.
#include "node/cuda/kernels/products.hpp"

namespace yamata::cuda {
namespace {

template <class Block, unsigned kWarps, unsigned kPerWarp>
struct OneToken {
  static constexpr cpu::PanelFormat kFormat = cpu::kPanelFormat<Block>;
  static constexpr unsigned kStage = kWarps * kPerWarp;  ///< blocks
  static constexpr unsigned kThreads = (kWarps + 1) * simt::kWarp;
  using Terms = BlockTerms<kFormat.has_min()>;
  /// Double buffer: one stage is computed, one added.
  struct Shared {
    Terms terms[2][kStage][kPanelRows];
  };
  /// What a lane reads of a block.
  struct Read {
    BlockWords<Block> words;
    RawScales scales;
    simt::Words4 x[2];
    float x_scale;
    std::uint32_t x_sums;
  };

  /// The warp's blocks of a stage: kPerWarp adjacent ones.
  static YAMATA_DEVICE void read(const ProductArgs& a, const std::uint8_t* panel, unsigned first, Read (&to)[kPerWarp]) {
    const auto* x_sums = reinterpret_cast<const std::uint32_t*>(a.x8.sub_sums);
    YAMATA_UNROLL
    for (unsigned i = 0; i < kPerWarp; ++i) {
      const unsigned b = first + simt::warp() * kPerWarp + i;
      if (!simt::within(b, a.x8.blocks)) continue;
      to[i].words.read(reinterpret_cast<const std::uint32_t*>(panel + BlockLayout<Block>::words_at(b)) + simt::lane());
      to[i].scales = ScalesAt<Block>(b, simt::lane()).read([&](unsigned at) { return panel + at; });
      for (unsigned half = 0; half < 2; ++half) to[i].x[half] = reinterpret_cast<const simt::Words4*>(a.x8.values)[2 * b + half];
      to[i].x_scale = a.x8.scales[b];
      if constexpr (kFormat.has_min()) to[i].x_sums = x_sums[b];
    }
  }

  /// Missing blocks at the end give terms that are not added.
  static YAMATA_DEVICE void multiply(const Read (&from)[kPerWarp], unsigned first, Terms (&to)[kStage][kPanelRows]) {
    YAMATA_UNROLL
    for (unsigned i = 0; i < kPerWarp; ++i) {
      const unsigned at = simt::warp() * kPerWarp + i;
      const RowScales scales = decode_scales<Block>(from[i].scales, first + at, simt::lane());
      int sums[2] = {0, 0};
      YAMATA_UNROLL
      for (unsigned step = 0; step < 8; ++step)
        sums[step / 4] = simt::dot4(step_word<Block>(from[i].words, step), from[i].x[step / 4].word[step % 4], sums[step / 4]);
      to[at][simt::lane()] = Terms::template of<Block>(whole_sum<Block>(sums, scales), scales, from[i].x_scale, from[i].x_sums);
    }
  }

  template <unsigned kCount>
  static YAMATA_DEVICE float add(const Terms (&terms)[kStage][kPanelRows], unsigned first, float sum) {
    Terms some[kCount];
    YAMATA_UNROLL
    for (unsigned i = 0; i < kCount; ++i) some[i] = terms[first + i][simt::lane()];
    YAMATA_UNROLL
    for (unsigned i = 0; i < kCount; ++i) sum = some[i].add_to(sum);
    return sum;
  }

  static YAMATA_DEVICE void work(const ProductArgs& a, const std::uint8_t* panel, unsigned stages, Shared& shared) {
    Read buffers[2][kPerWarp] = {};
    const auto stage = [&](unsigned s, const Read(&now)[kPerWarp], Read(&next)[kPerWarp]) {
      read(a, panel, (s + 1) * kStage, next);
      multiply(now, s * kStage, shared.terms[s % 2]);
      simt::sync_block();
    };
    read(a, panel, 0, buffers[0]);
    for (unsigned s = 0; s < stages; s += 2) {
      stage(s, buffers[0], buffers[1]);
      if (s + 1 < stages) stage(s + 1, buffers[1], buffers[0]);
    }
  }

  /// The sum of the lane's row.
  static YAMATA_DEVICE float add_all(const ProductArgs& a, unsigned stages, const Shared& shared) {
    constexpr unsigned kAhead = 8;
    float sum = 0;
    for (unsigned s = 0; s < stages; ++s) {
      simt::sync_block();
      const auto& terms = shared.terms[s % 2];
      const unsigned left = static_cast<unsigned>(a.x8.blocks) - s * kStage, count = left < kStage ? left : kStage;
      unsigned b = 0;
      for (; b + kAhead <= count; b += kAhead) sum = add<kAhead>(terms, b, sum);
      for (; b < count; ++b) sum = add<1>(terms, b, sum);
    }
    return sum;
  }
};

template <class Block, unsigned kWarps, unsigned kPerWarp>
YAMATA_KERNEL void YAMATA_BOUNDS((kWarps + 1) * simt::kWarp) one_token(const ProductArgs a) {
  using Kernel = OneToken<Block, kWarps, kPerWarp>;
  auto& shared = *simt::shared<typename Kernel::Shared>();
  const PanelOfPart place(a);
  const unsigned stages = static_cast<unsigned>(divide_up(a.x8.blocks, Kernel::kStage));
  if (simt::warp() < kWarps) return Kernel::work(a, place.weights(a), stages, shared);
  const float sum = Kernel::add_all(a, stages, shared);
  place.store(a, 0, simt::lane(), sum);
}

template <class Block, unsigned kWarps, unsigned kPerWarp>
void launch_one(const ProductArgs& a, Stream stream) {
  using Kernel = OneToken<Block, kWarps, kPerWarp>;
  simt::launch(&one_token<Block, kWarps, kPerWarp>, {panels_of(a), 1}, Kernel::kThreads, sizeof(typename Kernel::Shared), stream, a);
}

/// A GPU that has few panels per multiprocessor needs more warps for each to hide its latencies.
template <class Block>
void multiply_one(const ProductArgs& a, Stream stream) {
  constexpr unsigned kFewPanels = 256;
  if (panels_of(a) <= kFewPanels) return launch_one<Block, 16, 2>(a, stream);
  launch_one<Block, 8, 1>(a, stream);
}

}  // namespace
}  // namespace yamata::cuda
