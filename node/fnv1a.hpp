#pragma once
// The hash FNV-1a with 64 bits (Fowler, Noll, Vo).
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace yamata {

/// Hashes words of up to 64 bits one after another.
class Fnv1a {
 public:
  void add(std::uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001b3u; }
  void add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) add(static_cast<std::uint64_t>(b));
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace yamata
