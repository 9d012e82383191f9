#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kQ4_1 = {pack<cpu::BlockQ4_1>, multiply<cpu::BlockQ4_1>};

}  // namespace yamata::cuda
