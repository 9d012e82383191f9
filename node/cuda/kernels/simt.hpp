#pragma once
// The functions in which kernels are written: threads of a block, warps, shared memory, special instructions. The same kernel is compiled
// by nvcc for GPUs, with simt_cuda.cuh, and by any C++ compiler for the emulated device, which includes its own functions before the kernel
// (emulation/simt.hpp). Valid as C++17, for CUDA 11.4.
//
// A launch is a grid of blocks of `threads` threads, a multiple of 32. Every collective call must be made by all 32 lanes of a warp.
#include "node/cuda/kernels/simt_types.hpp"

#ifdef __CUDACC__
#include "node/cuda/kernels/simt_cuda.cuh"
#elif !defined(YAMATA_KERNEL)
#error "include a device's functions before the kernels, such as node/cuda/emulation/simt.hpp"
#endif
