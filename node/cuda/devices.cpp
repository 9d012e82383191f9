// The GPUs of this machine as compute units.
#include "node/cuda/cuda_device.hpp"
#include "node/cuda/cuda_unit.hpp"
#include "node/cuda/device/device_claim.hpp"
#include "node/device_units.hpp"

namespace yamata {
DeviceUnits device_units() {
  DeviceUnits units;
  units.names = cuda::cuda_devices(&units.why_none);
  return units;
}

void require_device_settings() { cuda::LaunchOptions::from_environment(); }

bool is_device_name(const std::string& name) { return name == "cuda" || name.starts_with("cuda:"); }

std::string own_device_name(const std::string& name, int local_rank) {
  return name == "cuda" ? "cuda:" + std::to_string(local_rank) : name;
}

std::unique_ptr<ComputeUnit> make_device_unit(const std::string& name, int local_rank) {
  const std::string device = own_device_name(name, local_rank);
  return std::make_unique<cuda::CudaUnit>(cuda::make_cuda_device(device), cuda::DeviceClaim::of_process(device),
                                          cuda::LaunchOptions::from_environment());
}

DeviceBytes device_bytes(const std::string& name, int local_rank) {
  const auto device = cuda::make_cuda_device(own_device_name(name, local_rank));
  return {device->properties().free_bytes, device->properties().unified};
}

}  // namespace yamata
