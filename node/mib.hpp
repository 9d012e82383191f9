#pragma once
// Bytes in MiB, for people to read.

namespace yamata {

template <class Number>
constexpr double mib(Number bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace yamata
