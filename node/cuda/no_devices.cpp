// A program that was built without devices.
#include "node/device_units.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

[[noreturn]] void refuse(const std::string& name) {
  throw UsageError(name + ": this program was built without CUDA; configure with -DYAMATA_CUDA=ON, or use cpu");
}

}  // namespace

DeviceUnits device_units() { return {}; }

void require_device_settings() {}

bool is_device_name(const std::string& name) { return name == "cuda" || name.starts_with("cuda:"); }

std::string own_device_name(const std::string& name, int) { return name; }

std::unique_ptr<ComputeUnit> make_device_unit(const std::string& name, int) { refuse(name); }

DeviceBytes device_bytes(const std::string& name, int) { refuse(name); }

}  // namespace yamata
