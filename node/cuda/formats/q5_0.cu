#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kQ5_0 = {pack<cpu::BlockQ5_0>, multiply<cpu::BlockQ5_0>};

}  // namespace yamata::cuda
