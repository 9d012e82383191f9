// Emulated devices as compute units, for the program that tests run. The words of YAMATA_EMULATED_DEVICE are their settings: "discrete",
// "bytes=N" (without mapped memory of the host, if it is discrete), "fails_at=N", "stream_fails_at=N", "none".
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "node/cuda/cuda_unit.hpp"
#include "node/cuda/device/device_claim.hpp"
#include "node/cuda/emulation/emulated_device.hpp"
#include "node/device_units.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr int kDevices = 8;

struct Setting {
  cuda::EmulatedDeviceOptions options;
  bool none = false;
};

Setting setting() {
  Setting s;
  const char* words = std::getenv("YAMATA_EMULATED_DEVICE");
  std::istringstream stream(words ? words : "");
  for (std::string word; stream >> word;) {
    const auto number = [&](std::size_t prefix) { return std::strtoull(word.c_str() + prefix, nullptr, 10); };
    if (word == "none") s.none = true;
    if (word == "discrete") s.options.unified = false;
    if (word.starts_with("bytes=")) s.options.memory_bytes = number(6);
    if (word.starts_with("fails_at=")) s.options.fails_at = number(9);
    if (word.starts_with("stream_fails_at=")) s.options.stream_fails_at = number(16);
  }
  return s;
}

std::string numbered(const std::string& name, int local_rank) {
  const std::string device = own_device_name(name, local_rank);
  for (int i = 0; i < kDevices; ++i) {
    if (device == "emulated:" + std::to_string(i) && !setting().none) return device;
  }
  throw UsageError(name + ": there is no such device; this machine has emulated:0 to emulated:7; use cpu");
}

/// Every build has emulated devices of its own, and in it every machine that YAMATA_EMULATED_MACHINE names, so tests can run at the same
/// time.
std::shared_ptr<cuda::DeviceClaim> claim(const std::string& device) {
  const std::size_t build = std::filesystem::hash_value(std::filesystem::read_symlink("/proc/self/exe"));
  const char* machine = std::getenv("YAMATA_EMULATED_MACHINE");
  return cuda::DeviceClaim::of_process(device, " " + std::to_string(build) + (machine ? machine : ""));
}

/// The memory in use of each device of this process, whatever its units. Used by the thread that makes the units.
std::shared_ptr<std::atomic<std::uint64_t>> used_bytes(const std::string& device) {
  static std::map<std::string, std::shared_ptr<std::atomic<std::uint64_t>>> all;
  auto& used = all[device];
  if (!used) used = std::make_shared<std::atomic<std::uint64_t>>(0);
  return used;
}

}  // namespace

DeviceUnits device_units() {
  if (setting().none) return {{}, "none is emulated"};
  DeviceUnits units;
  for (int i = 0; i < kDevices; ++i) units.names.push_back("emulated:" + std::to_string(i));
  return units;
}

void require_device_settings() { cuda::LaunchOptions::from_environment(); }

bool is_device_name(const std::string& name) { return name == "emulated" || name.starts_with("emulated:"); }

std::string own_device_name(const std::string& name, int local_rank) {
  return name == "emulated" ? "emulated:" + std::to_string(local_rank) : name;
}

std::unique_ptr<ComputeUnit> make_device_unit(const std::string& name, int local_rank) {
  const std::string device = numbered(name, local_rank);
  cuda::EmulatedDeviceOptions options = setting().options;
  options.id = device;
  options.used = used_bytes(device);
  return std::make_unique<cuda::CudaUnit>(std::make_unique<cuda::EmulatedDevice>(options), claim(device),
                                          cuda::LaunchOptions::from_environment());
}

DeviceBytes device_bytes(const std::string& name, int local_rank) {
  numbered(name, local_rank);
  return {setting().options.memory_bytes, setting().options.unified};
}

}  // namespace yamata
