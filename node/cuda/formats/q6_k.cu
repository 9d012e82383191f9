#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kQ6K = {pack<cpu::BlockQ6K>, multiply<cpu::BlockQ6K>};

}  // namespace yamata::cuda
