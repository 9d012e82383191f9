#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kIQ3S = {pack<cpu::BlockIQ3S>, multiply<cpu::PanelBlockOf<cpu::BlockIQ3S>>};
const FormatKernels YAMATA_DEVICE_SET::kIQ1S = {pack<cpu::BlockIQ1S>, multiply<cpu::PanelBlockOf<cpu::BlockIQ1S>>};
const FormatKernels YAMATA_DEVICE_SET::kIQ1M = {pack<cpu::BlockIQ1M>, multiply<cpu::PanelBlockOf<cpu::BlockIQ1M>>};

}  // namespace yamata::cuda
