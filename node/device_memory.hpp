#pragma once
// Memory in use of all devices of this process.
#include <cstdint>

namespace yamata {

/// A piece of a device's own memory was allocated or freed. From any thread.
void count_device_bytes(std::int64_t more);
/// The most bytes that were in use at a time, of all devices of this process together; 0: it used none.
std::uint64_t peak_device_bytes();

}  // namespace yamata
