#pragma once
// Cards, by NVIDIA's runtime. This is what programs built with CUDA have beside the emulated device.
#include <memory>
#include <string>
#include <vector>

#include "node/cuda/device.hpp"

namespace yamata::cuda {

/// The names of the cards of this machine, "cuda:0" and so on; none where there is no driver. `why_none` says why in a few words.
std::vector<std::string> cuda_devices(std::string* why_none = nullptr);

/// The card of that name. Throws UsageError where there is none.
std::unique_ptr<Device> make_cuda_device(const std::string& name);

}  // namespace yamata::cuda
