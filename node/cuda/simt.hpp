#pragma once
// What kernels are written in: threads of a block, warps, shared memory, the few instructions that C++ has no word for. The same kernel is
// compiled by nvcc for a card and by any C++ compiler for the emulated device (emulation/). Valid as C++17, for CUDA 11.4.
//
// A launch is a grid of blocks of `threads` threads, a multiple of 32. Warps are whole: every collective call is made by all 32 lanes.
#include <cstddef>
#include <cstdint>

#include "node/cuda/launch.hpp"

namespace yamata::simt {

/// Sixteen bytes, loaded and stored at once.
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
