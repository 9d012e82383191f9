#include "node/cuda/kernels/float_products.hpp"
#include "node/cuda/kernels/formats.hpp"

namespace yamata::cuda {

const FormatKernels YAMATA_DEVICE_SET::kF32 = {pack_float_rows<FloatWeights>, multiply_float_rows<FloatWeights>};
const FormatKernels YAMATA_DEVICE_SET::kF16 = {pack_float_rows<HalfWeights>, multiply_float_rows<HalfWeights>};
const FormatKernels YAMATA_DEVICE_SET::kBF16 = {pack_float_rows<BrainWeights>, multiply_float_rows<BrainWeights>};

}  // namespace yamata::cuda
