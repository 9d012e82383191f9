#pragma once
// The functions in which kernels are written: threads of a block, warps, shared memory, special instructions. The same kernel is compiled
// by nvcc for GPUs and by any C++ compiler for the emulated device (emulation/). Valid as C++17, for CUDA 11.4.
//
// A launch is a grid of blocks of `threads` threads, a multiple of 32. Every collective call must be made by all 32 lanes of a warp.
#include <cstddef>
#include <cstdint>

#include "node/cuda/launch.hpp"

namespace yamata::simt {

/// Sixteen bytes, for vectorized loads and stores.
struct alignas(16) Words4 {
  std::uint32_t word[4];
};

constexpr unsigned kWarp = 32;

}  // namespace yamata::simt

#ifdef __CUDACC__
#include "node/cuda/simt_cuda.cuh"
#else
#include "node/cuda/emulation/simt.hpp"
#endif
