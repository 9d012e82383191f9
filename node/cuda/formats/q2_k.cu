#include "node/cuda/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kQ2K = {pack<cpu::BlockQ2K>, multiply<cpu::BlockQ2K>};

}  // namespace yamata::cuda
