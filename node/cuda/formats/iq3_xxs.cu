#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kIQ3XXS = {pack<cpu::BlockIQ3XXS>, multiply<cpu::PanelBlockOf<cpu::BlockIQ3XXS>>};

}  // namespace yamata::cuda
