#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kQ8_0 = {pack<cpu::BlockQ8_0>, multiply<cpu::BlockQ8_0>};

}  // namespace yamata::cuda
