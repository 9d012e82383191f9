#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kIQ2XXS = {pack<cpu::BlockIQ2XXS>, multiply<cpu::PanelBlockOf<cpu::BlockIQ2XXS>>};
const FormatKernels YAMATA_DEVICE_SET::kIQ2XS = {pack<cpu::BlockIQ2XS>, multiply<cpu::PanelBlockOf<cpu::BlockIQ2XS>>};
const FormatKernels YAMATA_DEVICE_SET::kIQ2S = {pack<cpu::BlockIQ2S>, multiply<cpu::PanelBlockOf<cpu::BlockIQ2S>>};

}  // namespace yamata::cuda
