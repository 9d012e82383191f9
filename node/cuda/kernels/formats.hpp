#pragma once
// The kernels of each format. Each panel format is compiled in its own file (formats/): by nvcc for GPUs, and by the C++ compiler for the
// emulated device. They are in different namespaces, so that a program can contain both.
#include "node/cuda/kernels/device_kernels.hpp"

#ifdef __CUDACC__
#define YAMATA_DEVICE_SET cuda_set
#else
#define YAMATA_DEVICE_SET emulated_set
#endif

namespace yamata::cuda::YAMATA_DEVICE_SET {

extern const FormatKernels kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ2K, kQ3K, kQ4K, kQ5K, kQ6K, kIQ4NL, kIQ4XS, kMXFP4,
    kIQ2XXS, kIQ2XS, kIQ2S, kIQ3XXS, kIQ3S, kIQ1S, kIQ1M, kTQ1_0, kTQ2_0;

}  // namespace yamata::cuda::YAMATA_DEVICE_SET
