#pragma once
// The time at which tests keep and read measurements, in seconds since the epoch.
#include <cstdint>

namespace yamata {

inline constexpr std::int64_t kNow = 1'800'000'000, kHour = 3600, kDay = 24 * kHour;

}  // namespace yamata
