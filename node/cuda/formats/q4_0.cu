#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kQ4_0 = {pack<cpu::BlockQ4_0>, multiply<cpu::BlockQ4_0>};

}  // namespace yamata::cuda
