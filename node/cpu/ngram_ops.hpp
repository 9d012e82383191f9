#pragma once
// Operations of n-gram embeddings; each thread computes a part.
#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/thread_share.hpp"
#include "node/op.hpp"

namespace yamata::cpu {

/// The channels of `share`, for all steps.
void convolve_far(const KernelTable& kernels, const FarConvolutionOp& op, ThreadShare share);

/// The rows of `share`.
void compare_rows(const LikenessOp& op, ThreadShare share);

}  // namespace yamata::cpu
