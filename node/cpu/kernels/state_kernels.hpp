#pragma once
// Kernels of layers with states. All instruction sets give the same bits: sums have the order of node/state_op.hpp, and are
// fused multiply-adds.
#include <cstdint>

#include "node/cpu/kernels/kernels.hpp"

namespace yamata::cpu {

/// A step of the gated delta rule or of a scan for 16 columns of a head's state: its inputs, and where the state comes from and goes to.
struct DeltaRow {
  const float *k, *q;  ///< [dim]
  const float* v;      ///< [16]
  float decay, strength;
  const float* from;  ///< [dim][16]: the state before; null: that of the row before
  float* to;          ///< [dim][16]: the state after; null: not kept
  float* out;         ///< [16]; null: not computed
  float skip = 0;     ///< of a scan
};

struct StateKernels {
  /// y = sum of taps times x: columns[0] is the oldest of `count`, from 2 to StateShape::kTaps; taps of a channel lie together. Each
  /// product is added to those before. `channels` is a multiple of 16.
  void (*convolve)(const float* const* columns, const float* taps, std::int64_t count, std::int64_t channels, float* y);
  /// The rows in order (see DeltaRuleOp). `dim` is a multiple of 16. `state`: [dim][16], memory for the current state.
  void (*delta_rule)(const DeltaRow* rows, std::int64_t count, std::int64_t dim, float* state);
  /// The same (see ScanOp); `dim` is that of keys.
  void (*scan)(const DeltaRow* rows, std::int64_t count, std::int64_t dim, float* state);
};

#ifdef YAMATA_SIMDE  // as in tables.hpp
#define YAMATA_STATE_TABLE(isa) simde_state_table_##isa
#else
#define YAMATA_STATE_TABLE(isa) state_table_##isa
#endif

extern const StateKernels YAMATA_STATE_TABLE(scalar), YAMATA_STATE_TABLE(avx2), YAMATA_STATE_TABLE(avx512), YAMATA_STATE_TABLE(neon);

/// Those of an instruction set that isa_usable.
const StateKernels& state_kernels(Isa isa);

}  // namespace yamata::cpu
