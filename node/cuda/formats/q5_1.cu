#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kQ5_1 = {pack<cpu::BlockQ5_1>, multiply<cpu::BlockQ5_1>};

}  // namespace yamata::cuda
