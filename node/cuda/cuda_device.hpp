#pragma once
// NVIDIA GPUs, through the CUDA runtime.
#include <memory>
#include <string>
#include <vector>

#include "node/cuda/device/device.hpp"

namespace yamata::cuda {

/// The names of the GPUs of this machine, "cuda:0" and so on; none if there is no driver: then `why_none` is the reason.
std::vector<std::string> cuda_devices(std::string* why_none = nullptr);

/// The GPU of that name. Throws UsageError if there is none.
std::unique_ptr<Device> make_cuda_device(const std::string& name);

}  // namespace yamata::cuda
