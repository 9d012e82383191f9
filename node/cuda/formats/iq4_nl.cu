#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kIQ4NL = {pack<cpu::BlockIQ4NL>, multiply<cpu::BlockIQ4NL>};

}  // namespace yamata::cuda
