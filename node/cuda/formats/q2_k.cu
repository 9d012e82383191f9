#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/many_tokens.hpp"
#include "node/cuda/kernels/pack.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kQ2K = {pack<cpu::BlockQ2K>, multiply<cpu::BlockQ2K>};
const FormatKernels YAMATA_DEVICE_SET::kTQ1_0 = {pack<cpu::BlockTQ1_0>, multiply<cpu::PanelBlockOf<cpu::BlockTQ1_0>>};
const FormatKernels YAMATA_DEVICE_SET::kTQ2_0 = {pack<cpu::BlockTQ2_0>, multiply<cpu::PanelBlockOf<cpu::BlockTQ2_0>>};

}  // namespace yamata::cuda
