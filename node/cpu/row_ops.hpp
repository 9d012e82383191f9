#pragma once
// Operations on rows of floats; each thread computes a part. Sums are in double precision, in the same order on every machine.
#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/thread_share.hpp"
#include "node/op.hpp"

namespace yamata::cpu {

/// The rows of `share`; x has all columns: [rows][x_stride].
void norm_rows(const KernelTable& kernels, const NormOp& op, const float* x, std::int64_t x_stride, ThreadShare share);
/// The rows of `share`.
void resize_rows(const ResizeOp& op, ThreadShare share);
/// The columns of `share`, in all rows.
void add_columns(const KernelTable& kernels, const AddOp& op, ThreadShare share);
/// The elements of `share`.
void scale_elements(const KernelTable& kernels, const ScaleOp& op, ThreadShare share);
/// Finds the highest value of the rows of `share`.
void find_highest(const HighestOp& op, ThreadShare share);
/// Chooses the experts for the rows of `share`: writes RouterOp's weights, and the chosen experts into its `pairs`.
void choose_experts(const KernelTable& kernels, const RouterOp& op, ThreadShare share);
/// Numbers the pairs after the experts of all rows are chosen.
void number_pairs(const RouterOp& op);

}  // namespace yamata::cpu
