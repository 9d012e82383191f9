#pragma once
// Operations on rows of floats, each thread's part of one. Sums are in double precision and in one order, on every machine.
#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/thread_share.hpp"
#include "node/op.hpp"

namespace yamata::cpu {

/// The rows of `share`, all of whose columns are in x: [rows][x_stride].
void norm_rows(const KernelTable& kernels, const NormOp& op, const float* x, std::int64_t x_stride, ThreadShare share);
/// The columns of `share`, of all rows.
void add_columns(const KernelTable& kernels, const AddOp& op, ThreadShare share);
/// The elements of `share`.
void scale_elements(const KernelTable& kernels, const ScaleOp& op, ThreadShare share);
/// The choice of the rows of `share`: RouterOp's weights, and in its `pairs` the experts that they chose.
void choose_experts(const KernelTable& kernels, const RouterOp& op, ThreadShare share);
/// Numbers the pairs once all rows have chosen.
void number_pairs(const RouterOp& op);

}  // namespace yamata::cpu
