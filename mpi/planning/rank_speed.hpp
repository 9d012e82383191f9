#pragma once
// How ranks that were measured compare.
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/protocol/wire.hpp"

namespace yamata {

/// Nanoseconds per byte of some ranks. What differs by chance counts as equal: whatever ranks
/// with equally many threads in one control group of a host say of the processors they share, half as much again on one host, and
/// between hosts whose processors have the same name and as many threads, 15 % between others. Empty where a rank was not measured.
std::vector<double> settled_ns_per_byte(const std::vector<wire::Hello>& hellos, const std::vector<int>& ranks);
/// The same in units of the fastest's.
std::vector<double> relative_ns_per_byte(const std::vector<wire::Hello>& hellos, const std::vector<int>& ranks);

/// Times in units of the shortest, those within 15 % of each other made equal.
std::vector<double> levelled(std::vector<double> times);

/// Bytes of memory that each rank may fill with weights and cache: an equal part of what its machine has free, or what its devices have,
/// less the buffers for runs of a stage; and, where a device with memory of its own has whole layers of `layer_bytes` each, as many of them
/// as are asked for and fit there.
std::vector<std::uint64_t> weight_capacities(const std::vector<wire::Hello>& hellos, std::uint64_t buffer_bytes, std::uint64_t layer_bytes);

}  // namespace yamata
