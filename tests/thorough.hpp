#pragma once
// How much a test does.
#include <cstdlib>

namespace yamata::test {

/// Whether a test runs all its cases (YAMATA_THOROUGH is set and not empty): launch/test all, or of a group. The everyday suite runs fewer.
inline bool thorough() {
  const char* set = std::getenv("YAMATA_THOROUGH");
  return set && *set;
}

/// Whether the tests are sanitized, and so ten times as slow: then the everyday suite runs still fewer cases.
inline constexpr bool sanitized() {
#ifdef YAMATA_SANITIZED
  return true;
#else
  return false;
#endif
}

}  // namespace yamata::test
