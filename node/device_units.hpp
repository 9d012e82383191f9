#pragma once
// Compute units other than CPU cores, if the program was built with any.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "node/compute_unit.hpp"

namespace yamata {

/// The devices of this machine.
struct DeviceUnits {
  std::vector<std::string> names;  ///< as in --units
  std::string why_none;            ///< why there are none although the program was built for them; empty: it was not
};
DeviceUnits device_units();

/// Throws UsageError if an environment variable has settings of devices that do not exist, even if no device will be used. Without devices,
/// nothing reads them.
void require_device_settings();

/// Whether this could be the name of a device, on this machine or another.
bool is_device_name(const std::string& name);

/// The name with the number that the device has on this rank.
std::string own_device_name(const std::string& name, int local_rank);

/// A unit for the device of that name. A name without a number means the device whose number is the rank's number on its machine. Throws
/// UsageError if there is no such device, or if another process uses it. Several units of a process may be the same device.
std::unique_ptr<ComputeUnit> make_device_unit(const std::string& name, int local_rank);
/// Free bytes of a device, and whether it shares the host's memory.
struct DeviceBytes {
  std::uint64_t free = 0;
  bool unified = false;
};
/// The device is named likewise. Throws UsageError if there is none: a message that begins with the name, to follow the flag.
DeviceBytes device_bytes(const std::string& name, int local_rank);

}  // namespace yamata
