#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kQ4K = {pack<cpu::BlockQ4K>, multiply<cpu::BlockQ4K>};

}  // namespace yamata::cuda
