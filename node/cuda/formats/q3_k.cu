#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kQ3K = {pack<cpu::BlockQ3K>, multiply<cpu::BlockQ3K>};

}  // namespace yamata::cuda
