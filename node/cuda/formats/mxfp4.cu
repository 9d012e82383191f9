#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kMXFP4 = {pack<cpu::BlockMXFP4>, multiply<cpu::BlockMXFP4>};

}  // namespace yamata::cuda
