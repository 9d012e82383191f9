#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kQ5K = {pack<cpu::BlockQ5K>, multiply<cpu::BlockQ5K>};

}  // namespace yamata::cuda
