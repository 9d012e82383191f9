#pragma once
// A fast 64-bit checksum of large blocks: it detects damage, not malice.
#include <cstddef>
#include <cstdint>
#include <span>

namespace yamata {

/// The checksum of these bytes; never 0. Any change within eight consecutive bytes changes it. Four lanes of eight bytes each, because one
/// multiplication per word and lane is the latency that bounds it.
std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace yamata
