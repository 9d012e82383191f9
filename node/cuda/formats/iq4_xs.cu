#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kIQ4XS = {pack<cpu::BlockIQ4XS>, multiply<cpu::BlockIQ4XS>};

}  // namespace yamata::cuda
