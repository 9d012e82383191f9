#pragma once
// What an instruction set's lanes must define for the product with quantized weights. A lane is one row of a panel. Every lanes_*.hpp is
// included before this. The names are checked here, because an error in a template that uses them would be reported far from its cause.
//
//   kRows                 rows of a panel, one lane each
//   kTileColumns          tokens for which weights are decoded once
//   kFewColumns<signed>   up to this many tokens, two panels are multiplied side by side, with signed or unsigned weights; 0: never
//   kPrefetchBytes<busy>  how far ahead panels are prefetched; busy: several tokens, or quantized scales
//   kPrefetchL2Bytes      the same, to the L2 cache only
//   prefetches_to_l2<n>   whether products with n tokens do that on this machine
//   kStepsToFlush<bits>   steps of weights of `bits` bits that a PartialSums can add up
//   kSignedZeroPoint      what signed_bytes adds to its bytes
//   kSubCompensation      whether sums of six-bit numbers begin with a compensation, which keeps them in range for a whole sub-block;
//                         begin_sub_block(sum, compensation) sets it
//   kColumnsAtOnce        tokens per product: 1, or 2 by join_steps(w...) and dot_pair<step>(w, x0, x1, sum0, sum1)
#include <concepts>
#include <cstdint>

namespace yamata::cpu {
namespace {

/// A float per row.
template <class Floats>
concept RowFloatLanes = requires(Floats a, const float* p, float* to, const std::uint16_t* halves, const std::int8_t* bytes) {
  { add(a, a) } -> std::same_as<Floats>;
  { mul(a, a) } -> std::same_as<Floats>;
  { fma(a, a, a) } -> std::same_as<Floats>;  // a * b + c, rounded once
  { row_floats(1.0f) } -> std::same_as<Floats>;
  { from_halves(halves) } -> std::same_as<Floats>;
  { from_bytes(bytes) } -> std::same_as<Floats>;
  { load_rows(p) } -> std::same_as<Floats>;
  store_rows(to, a);
};

/// An int32 per row. row_ints<shift>(p): the same number in each row, times two to the power shift.
template <class Ints, class Floats>
concept RowIntLanes = requires(Ints a, const std::int32_t* p) {
  { add(a, a) } -> std::same_as<Ints>;
  { sub(a, a) } -> std::same_as<Ints>;
  { from_ints(a) } -> std::same_as<Floats>;
  { row_ints<1>(p) } -> std::same_as<Ints>;
};

/// Two int16 per row, multiplied by two of x and added.
template <class Pairs, class Ints>
concept RowPairLanes = requires(Pairs a, const std::int8_t* bytes, const std::int16_t* x) {
  { mul(a, a) } -> std::same_as<Pairs>;
  { row_pairs(1) } -> std::same_as<Pairs>;
  { load_pairs(bytes) } -> std::same_as<Pairs>;
  { dot_pairs(a, x) } -> std::same_as<Ints>;
};

/// Four bytes per row. field<shift, bits> extracts bits; join_high<shift, bits, to>(low, high) puts extracted bits of `high` above `low`,
/// from bit `to` on; look_up replaces each byte by a table's entry; signed_bytes converts signed bytes for dot.
template <class Bytes>
concept RowByteLanes = requires(Bytes a, const std::uint8_t* p, const std::int8_t* table) {
  { load_row_bytes(p) } -> std::same_as<Bytes>;
  { field<4, 4>(a) } -> std::same_as<Bytes>;
  { join_high<0, 2, 4>(a, a) } -> std::same_as<Bytes>;
  { look_up(a, table) } -> std::same_as<Bytes>;
  signed_bytes(a);
};

/// dot<step>(w, x): per row the sum of four products of weights with bytes 4*step and following of x, a token's 32 bytes; or this sum added
/// to a previous one. flush converts the sum to int32, without a factor or times the scale that sub_factor<sub> takes from each row's pair,
/// for the first or second sub-block.
template <class Sums, class Bytes, class Pairs, class Ints>
concept DotLanes = requires(Sums sum, Bytes w, Pairs scales, const std::int8_t* x) {
  { dot<0>(w, x) } -> std::same_as<Sums>;
  { dot<3>(sum, w, x) } -> std::same_as<Sums>;
  { dot<3>(sum, signed_bytes(w), x) } -> std::same_as<Sums>;
  { flush(sum) } -> std::same_as<Ints>;
  { flush(sum, sub_factor<1>(scales)) } -> std::same_as<Ints>;
};

static_assert(kRows > 0 && kTileColumns > 0 && (kColumnsAtOnce == 1 || kColumnsAtOnce == 2));
static_assert(kFewColumns<true> >= 0 && kPrefetchBytes<true> > 0 && kPrefetchL2Bytes >= 0 && kStepsToFlush<4> > 0);
static_assert(RowFloatLanes<RowFloats> && RowIntLanes<RowInts, RowFloats> && RowPairLanes<RowPairs, RowInts> && RowByteLanes<RowBytes>);
static_assert(DotLanes<PartialSums, RowBytes, RowPairs, RowInts>);

}  // namespace
}  // namespace yamata::cpu
