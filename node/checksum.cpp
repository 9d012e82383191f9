#include "node/checksum.hpp"

#include <cstring>

namespace yamata {
namespace {

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;  // the golden ratio's fraction: every multiplication by it can be undone

/// Can be undone in both arguments, so that two different words never give the same result.
std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * kOdd;
  return hash ^ (hash >> 29);
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) {
  constexpr std::size_t kLanes = 4, kWord = sizeof(std::uint64_t);
  std::uint64_t lanes[kLanes] = {1, 2, 3, 4};
  std::uint64_t words[kLanes];
  std::size_t at = 0;
  for (; bytes.size() - at >= sizeof(words); at += sizeof(words)) {
    std::memcpy(words, bytes.data() + at, sizeof(words));
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = mix(lanes[lane], words[lane]);
  }
  std::uint64_t hash = bytes.size();
  for (const std::uint64_t lane : lanes) hash = mix(hash, lane);
  for (; at < bytes.size(); at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, bytes.size() - at < kWord ? bytes.size() - at : kWord);
    hash = mix(hash, word);
  }
  return hash != 0 ? hash : 1;
}

}  // namespace yamata
