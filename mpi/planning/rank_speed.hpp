#pragma once
// Compares the measured speeds of ranks.
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/protocol/wire.hpp"

namespace yamata {

/// Nanoseconds per byte of some ranks, with differences made equal that are probably noise: any difference between ranks with the same
/// number of threads in one control group of a host; up to 50 % on one host, and between hosts with the same processor name and number of
/// threads; up to 15 % otherwise. Empty if a rank was not measured.
std::vector<double> settled_ns_per_byte(const std::vector<wire::Hello>& hellos, const std::vector<int>& ranks);
/// The same, divided by the fastest rank's.
std::vector<double> relative_ns_per_byte(const std::vector<wire::Hello>& hellos, const std::vector<int>& ranks);

/// Times divided by the shortest; those within 15 % of each other are made equal.
std::vector<double> equalized(std::vector<double> times);

/// Bytes of memory that each rank may fill with weights and cache: an equal part of its machine's free memory, or its devices' memory,
/// without the buffers for runs of a stage. If a device with memory of its own has whole layers of `layer_bytes` each, also as many of them
/// as are asked for and fit there.
std::vector<std::uint64_t> weight_capacities(const std::vector<wire::Hello>& hellos, std::uint64_t buffer_bytes, std::uint64_t layer_bytes);

}  // namespace yamata
