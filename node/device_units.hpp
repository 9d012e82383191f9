#pragma once
// Compute units that are no cores of the CPU, as far as this program was built with any.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "node/compute_unit.hpp"

namespace yamata {

/// What there is of them on this machine.
struct DeviceUnits {
  std::vector<std::string> names;  ///< as --units has them
  std::string why_none;            ///< where the program was built with some and finds none; empty: it was not
};
DeviceUnits device_units();

/// Whether a name is one that a device could have, here or on another machine.
bool is_device_name(const std::string& name);

/// The name with the number that it has on this rank.
std::string own_device_name(const std::string& name, int local_rank);

/// The device of that name as a unit; a name without a number is the device of the rank's number on its machine. Throws UsageError where
/// there is none, or another process has it.
std::unique_ptr<ComputeUnit> make_device_unit(const std::string& name, int local_rank);
/// Bytes that are free on a device, and whether they are the host's own.
struct DeviceBytes {
  std::uint64_t free = 0;
  bool unified = false;
};
/// Likewise named; throws UsageError where there is none.
DeviceBytes device_bytes(const std::string& name, int local_rank);

}  // namespace yamata
