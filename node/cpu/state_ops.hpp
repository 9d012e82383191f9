#pragma once
// Operations of layers with states; each thread computes a part.
#include <vector>

#include "node/cpu/kernels/state_kernels.hpp"
#include "node/cpu/thread_share.hpp"
#include "node/op.hpp"

namespace yamata::cpu {

/// log(1 + e^x), in double precision with the same operations everywhere.
double softplus(const KernelTable& kernels, float x);

/// The operation's heads of the convolution: queries, keys, values.
std::int64_t convolved_heads(const StateInputsOp& op);
/// Those of `share`, for all rows.
void make_state_inputs(const KernelTable& kernels, const StateInputsOp& op, ThreadShare share);

/// The heads of `share`, counted through those of the operation, for all rows.
void convolve_gated(const KernelTable& kernels, const GatedConvolutionOp& op, ThreadShare share);

/// Floats of memory that a thread needs for the rule, or for a scan.
std::size_t rule_floats(const StateShape& shape, const StatePlan& plan);
// The blocks of `share`, counted through all heads of the operation. `rows`: memory for the steps of a head.
void apply_rule(const StateKernels& kernels, const DeltaRuleOp& op, ThreadShare share, std::vector<DeltaRow>& rows, float* memory);
void apply_rule(const StateKernels& kernels, const ScanOp& op, ThreadShare share, std::vector<DeltaRow>& rows, float* memory);

/// The heads of `share`, counted through all rows of the operation.
void gate_heads(const KernelTable& kernels, const HeadGateOp& op, ThreadShare share);

}  // namespace yamata::cpu
