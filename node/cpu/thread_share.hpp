#pragma once
// Division of items among the threads of a pool.
#include <algorithm>
#include <cstdint>

namespace yamata {

struct ThreadShare {
  std::int64_t begin, end;
};

/// The thread's contiguous part of `count` items, cut at multiples of `grain`.
inline ThreadShare thread_share(std::int64_t count, int thread, int threads, std::int64_t grain = 1) {
  const std::int64_t grains = (count + grain - 1) / grain;
  const std::int64_t begin = grains * thread / threads * grain;
  const std::int64_t end = grains * (thread + 1) / threads * grain;
  return {std::min(begin, count), std::min(end, count)};
}

}  // namespace yamata
