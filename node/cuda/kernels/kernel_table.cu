#include "node/cuda/kernels/attention.hpp"
#include "node/cuda/kernels/copy.hpp"
#include "node/cuda/kernels/device_kernels.hpp"
#include "node/cuda/kernels/flags.hpp"
#include "node/cuda/kernels/formats.hpp"
#include "node/cuda/kernels/highest.hpp"
#include "node/cuda/kernels/input.hpp"
#include "node/cuda/kernels/ngrams.hpp"
#include "node/cuda/kernels/pick.hpp"
#include "node/cuda/kernels/residual.hpp"
#include "node/cuda/kernels/states.hpp"
#include "node/cuda/kernels/store.hpp"

#ifdef __CUDACC__
#define YAMATA_DEVICE_TABLE kCudaKernels
#else
#define YAMATA_DEVICE_TABLE kEmulatedKernels
#endif

namespace yamata::cuda {
namespace {

constexpr DeviceKernels make_table() {
  using namespace YAMATA_DEVICE_SET;
  DeviceKernels t{{},
                  make_input,
                  encode,
                  decode,
                  copy,
                  gather,
                  add_bias,
                  norm,
                  resize,
                  add,
                  scale,
                  highest,
                  store,
                  attend,
                  merge,
                  state_inputs,
                  delta_rule,
                  scan_states,
                  gated_convolution,
                  convolve_far,
                  compare_rows,
                  gate_heads,
                  ungate,
                  index_scores,
                  pick,
                  pool,
                  raise_flag,
                  await_flag};
  t.formats[static_cast<int>(TensorType::F32)] = &kF32;
  t.formats[static_cast<int>(TensorType::F16)] = &kF16;
  t.formats[static_cast<int>(TensorType::BF16)] = &kBF16;
  t.formats[static_cast<int>(TensorType::Q4_0)] = &kQ4_0;
  t.formats[static_cast<int>(TensorType::Q4_1)] = &kQ4_1;
  t.formats[static_cast<int>(TensorType::Q5_0)] = &kQ5_0;
  t.formats[static_cast<int>(TensorType::Q5_1)] = &kQ5_1;
  t.formats[static_cast<int>(TensorType::Q8_0)] = &kQ8_0;
  t.formats[static_cast<int>(TensorType::Q2_K)] = &kQ2K;
  t.formats[static_cast<int>(TensorType::Q3_K)] = &kQ3K;
  t.formats[static_cast<int>(TensorType::Q4_K)] = &kQ4K;
  t.formats[static_cast<int>(TensorType::Q5_K)] = &kQ5K;
  t.formats[static_cast<int>(TensorType::Q6_K)] = &kQ6K;
  t.formats[static_cast<int>(TensorType::IQ4_NL)] = &kIQ4NL;
  t.formats[static_cast<int>(TensorType::IQ4_XS)] = &kIQ4XS;
  t.formats[static_cast<int>(TensorType::MXFP4)] = &kMXFP4;
  t.formats[static_cast<int>(TensorType::IQ2_XXS)] = &kIQ2XXS;
  t.formats[static_cast<int>(TensorType::IQ2_XS)] = &kIQ2XS;
  t.formats[static_cast<int>(TensorType::IQ2_S)] = &kIQ2S;
  t.formats[static_cast<int>(TensorType::IQ3_XXS)] = &kIQ3XXS;
  t.formats[static_cast<int>(TensorType::IQ3_S)] = &kIQ3S;
  t.formats[static_cast<int>(TensorType::IQ1_S)] = &kIQ1S;
  t.formats[static_cast<int>(TensorType::IQ1_M)] = &kIQ1M;
  t.formats[static_cast<int>(TensorType::TQ1_0)] = &kTQ1_0;
  t.formats[static_cast<int>(TensorType::TQ2_0)] = &kTQ2_0;
  return t;
}

}  // namespace

const DeviceKernels YAMATA_DEVICE_TABLE = make_table();

}  // namespace yamata::cuda
