#pragma once
// Stages of products with many tokens: a few blocks of columns of some panels and some tokens, in shared memory.
#include "node/cuda/kernels/products.hpp"

namespace yamata::cuda {
namespace {

/// What a thread block computes: each multiplying warp one of kPanels panels by kWarpTokens tokens. kLoadWarps more warps load stages of
/// kStage blocks of 32 columns. kMinBlocks: thread blocks per multiprocessor, which limits registers.
template <unsigned kPanelsOf, unsigned kTokenWarps, unsigned kWarpTokensOf, unsigned kStageOf, unsigned kLoadWarpsOf, unsigned kMinBlocksOf>
struct ManyTile {
  static constexpr unsigned kPanels = kPanelsOf, kWarpTokens = kWarpTokensOf, kTokens = kTokenWarps * kWarpTokens, kStage = kStageOf;
  static constexpr unsigned kWarps = kPanels * kTokenWarps, kLoadWarps = kLoadWarpsOf, kLoaders = kLoadWarps * simt::kWarp;
  static constexpr unsigned kThreads = kWarps * simt::kWarp + kLoaders, kMinBlocks = kMinBlocksOf;
  /// Index of a loading thread.
  static YAMATA_DEVICE unsigned loader() { return simt::thread() - kWarps * simt::kWarp; }
};

template <class Block, class Tile>
struct ManyStages {
  static constexpr cpu::PanelFormat kFormat = cpu::kPanelFormat<Block>;
  using Layout = BlockLayout<Block>;
  static constexpr bool kMin = kFormat.has_min(), kSub = kFormat.has_sub_blocks(), kSubMin = kMin && kSub;
  static constexpr unsigned kStage = Tile::kStage, kPlanes = kFormat.low_bits + kFormat.high_bits;
  /// Groups of scales: the blocks of a stage are all in one group, or each is a group.
  static constexpr unsigned kHeaders = kFormat.grouped() ? 1 : kStage, kHeaderBytes = Layout::kWordsAt;
  static_assert(!kFormat.grouped() || Layout::kBlocks % kStage == 0);
  static constexpr bool kAdjacent = kAdjacentSteps<Block>;

  /// As copied. Planes and tokens are padded: the lanes of a warp read from different banks.
  struct Stage {
    alignas(16) std::uint32_t words[Tile::kPanels][kStage][kPlanes][kPanelRows + 8];
    alignas(16) std::uint32_t x[Tile::kTokens][kStage * 8 + (!kAdjacent ? 4 : kStage * 8 % 16 == 0 ? 8 : 0)];
    alignas(16) std::uint8_t headers[Tile::kPanels][kHeaders][kHeaderBytes];
    float x_scales[Tile::kTokens][kStage];
    std::uint32_t x_sums[kMin ? Tile::kTokens : 1][kStage];  // in the order of x_scales
  };

  /// Decoded. Of a row: d, m, the scales of the sub-blocks, their minimums. Of a token: its scale, and the sum of its activations as the
  /// minimum needs it: scaled, or of each half.
  static constexpr unsigned kOfRow = 1 + (kMin ? 1 : 0) + (kSub ? 2 : 0) + (kSubMin ? 2 : 0), kOfToken = kSubMin ? 3 : kMin ? 2 : 1;
  struct Factors {
    alignas(16) float rows[kStage][Tile::kPanels * kPanelRows][kOfRow];
    alignas(16) float tokens[kStage][Tile::kTokens][kOfToken];
  };

  static constexpr unsigned kDepth = ring_stages(sizeof(Stage), 2 * sizeof(Factors), 4);
  static_assert(kDepth >= 3);
  struct Shared {
    Stage ring[kDepth];
    Factors factors[2];
  };

  class Copies;
  /// Decodes the scales of a stage whose first block is `first`.
  static YAMATA_DEVICE void decode(const Stage& from, unsigned first, Factors& to);
};

/// Copies stages into the ring, all loading threads together. Each has the same pieces of every stage.
template <class Block, class Tile>
class ManyStages<Block, Tile>::Copies {
 public:
  /// Missing panels, tokens and blocks leave old data, whose results are not stored.
  YAMATA_DEVICE Copies(const ProductArgs& a, const ProductArgs::Part& part, std::int64_t panel, std::int64_t token, Stage* ring)
      : ring_(reinterpret_cast<std::uint8_t*>(ring)), blocks_(static_cast<unsigned>(a.x8.blocks)) {
    const unsigned panel_bytes = static_cast<unsigned>(kPanelRows * a.row_bytes);
    weights_ = reinterpret_cast<const std::uint8_t*>(part.panels) + static_cast<std::size_t>(panel) * panel_bytes;
    const std::size_t x_at = static_cast<std::size_t>(token) * blocks_;
    x_ = a.x8.values + 32 * x_at, x_scales_ = a.x8.scales + x_at;
    x_sums_ = reinterpret_cast<const std::uint32_t*>(a.x8.sub_sums) + x_at;
    const auto has_panel = [&](unsigned i) { return simt::within((panel + i) * kPanelRows, part.end); };
    const auto has_token = [&](unsigned i) { return simt::within(token + i, a.tokens); };
    for_each(words_, [&](unsigned i) {
      constexpr unsigned kPieces = kPlanes * kPlaneBytes / kPiece;
      const unsigned p = i / (kStage * kPieces), b = i / kPieces % kStage, at = i % kPieces * kPiece;
      const unsigned from = p * panel_bytes + Layout::words_at(b) + at;
      return piece(from, &ring->words[p][b][at / kPlaneBytes][at % kPlaneBytes / 4], b, has_panel(p));
    });
    for_each(headers_, [&](unsigned i) {
      constexpr unsigned kPieces = kHeaderBytes / kPiece;
      const unsigned p = i / (kHeaders * kPieces), b = i / kPieces % kHeaders, at = i % kPieces * kPiece;
      return piece(p * panel_bytes + b * Layout::kGroupBytes + at, &ring->headers[p][b][at], b, has_panel(p));
    });
    for_each(values_, [&](unsigned i) {
      const unsigned t = i / (2 * kStage), at = i % (2 * kStage) * kPiece;
      return piece(t * blocks_ * 32 + at, &ring->x[t][at / 4], at / 32, has_token(t));
    });
    for_each(scales_, [&](unsigned i) {
      const unsigned t = i / kStage, b = i % kStage;
      return piece(t * blocks_ + b, &ring->x_scales[t][b], b, has_token(t));
    });
  }

  /// Begins to copy the next stage, if there is one, to this place of the ring.
  YAMATA_DEVICE void copy(unsigned place) {
    std::uint8_t* to = ring_ + place * sizeof(Stage);
    const unsigned group = first_ / Layout::kBlocks * Layout::kGroupBytes;
    const unsigned words = Layout::words_at(first_) - Layout::kWordsAt;
    for (const Piece& p : words_) {
      if (simt::within(first_, p.until)) simt::copy_async<kPiece>(to + p.to, weights_ + (words + p.from));
    }
    for (const Piece& p : headers_) {
      if (simt::within(first_, p.until)) simt::copy_async<kPiece>(to + p.to, weights_ + (group + p.from));
    }
    for (const Piece& p : values_) {
      if (simt::within(first_, p.until)) simt::copy_async<kPiece>(to + p.to, x_ + (32 * first_ + p.from));
    }
    for (const Piece& p : scales_) {
      if (!simt::within(first_, p.until)) continue;
      simt::copy_async<4>(to + p.to, x_scales_ + (first_ + p.from));
      if constexpr (kMin)
        simt::copy_async<4>(to + p.to + (offsetof(Stage, x_sums) - offsetof(Stage, x_scales)), x_sums_ + (first_ + p.from));
    }
    simt::commit_copies();
    first_ += kStage;
  }

 private:
  static constexpr unsigned kPiece = 16, kPlaneBytes = kPanelRows * 4;
  /// `from`: of the first stage. Stages have it whose first block is below `until`.
  struct Piece {
    unsigned from, to, until;
  };
  template <unsigned kCount>
  struct Own {
    static constexpr unsigned kAll = kCount, kEach = (kCount + Tile::kLoaders - 1) / Tile::kLoaders;
    Piece pieces[kEach];
    YAMATA_DEVICE const Piece* begin() const { return pieces; }
    YAMATA_DEVICE const Piece* end() const { return pieces + kEach; }
  };

  YAMATA_DEVICE Piece piece(unsigned from, const void* to, unsigned block, bool exists) const {
    return {from, static_cast<unsigned>(static_cast<const std::uint8_t*>(to) - ring_), exists && block < blocks_ ? blocks_ - block : 0};
  }
  template <unsigned kCount, class Make>
  static YAMATA_DEVICE void for_each(Own<kCount>& own, const Make& make) {
    YAMATA_UNROLL
    for (unsigned j = 0; j < Own<kCount>::kEach; ++j) {
      const unsigned i = j * Tile::kLoaders + Tile::loader();
      own.pieces[j] = i < kCount ? make(i) : Piece{0, 0, 0};
    }
  }

  std::uint8_t* ring_;
  const std::uint8_t* weights_;
  const std::int8_t* x_;
  const float* x_scales_;
  const std::uint32_t* x_sums_;
  unsigned blocks_, first_ = 0;
  Own<Tile::kPanels * kStage * kPlanes * kPlaneBytes / kPiece> words_;
  Own<Tile::kPanels * kHeaders * kHeaderBytes / kPiece> headers_;
  Own<Tile::kTokens * kStage * 2> values_;
  Own<Tile::kTokens * kStage> scales_;
};

template <class Block, class Tile>
YAMATA_DEVICE void ManyStages<Block, Tile>::decode(const Stage& from, unsigned first, Factors& to) {
  YAMATA_UNROLL
  for (unsigned i = 0; i < Tile::kPanels * kStage; i += Tile::kLoadWarps) {
    const unsigned pair = i + Tile::loader() / simt::kWarp, panel = pair % Tile::kPanels, b = pair / Tile::kPanels, row = simt::lane();
    if (i + Tile::kLoadWarps > Tile::kPanels * kStage && pair >= Tile::kPanels * kStage) continue;
    const unsigned in_group = (first + b) % Layout::kBlocks;
    const RawScales raw = ScalesAt<Block>(in_group, row).read([&](unsigned at) { return from.headers[panel][kHeaders == 1 ? 0 : b] + at; });
    const RowScales scales = decode_scales<Block>(raw, in_group, row);
    float* out = to.rows[b][panel * kPanelRows + row];
    out[0] = scales.d;
    if constexpr (kMin) out[1] = scales.m;
    for (unsigned j = 0; j < 2; ++j) {
      if constexpr (kSub) out[1 + (kMin ? 1 : 0) + j] = static_cast<float>(scales.sub[j]);
      if constexpr (kSubMin) out[4 + j] = static_cast<float>(scales.sub_min[j]);
    }
  }
  YAMATA_UNROLL
  for (unsigned i = 0; i < Tile::kTokens * kStage; i += Tile::kLoaders) {
    const unsigned unit = i + Tile::loader(), token = unit / kStage, b = unit % kStage;
    if (i + Tile::kLoaders > Tile::kTokens * kStage && unit >= Tile::kTokens * kStage) continue;
    float* out = to.tokens[b][token];
    out[0] = from.x_scales[token][b];
    if constexpr (kMin) {
      const std::uint32_t sums = from.x_sums[token][b];
      if constexpr (kSubMin)
        out[1] = static_cast<float>(first_half(sums)), out[2] = static_cast<float>(second_half(sums));
      else
        out[1] = scaled_sum(out[0], sums);
    }
  }
}

}  // namespace
}  // namespace yamata::cuda
