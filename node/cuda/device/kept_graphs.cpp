#include "node/cuda/device/kept_graphs.hpp"

#include <algorithm>

namespace yamata::cuda {
namespace {

constexpr std::size_t kMinLaunches = 3;  // a graph of fewer would not be faster
constexpr std::size_t kMaxGraphs = 512;  // each takes some ten KiB on the GPU

std::uint64_t kernels_of(std::span<const simt::Launch> launches) {
  std::uint64_t hash = launches.size();
  for (const simt::Launch& launch : launches) hash = (hash ^ reinterpret_cast<std::uintptr_t>(launch.kernel)) * 0x9e3779b97f4a7c15u;
  return hash;
}

}  // namespace

/// Evicts the least recently used graphs. Not in the middle of a list, because they may be running.
void KeptGraphs::begin(const ListShape& list) {
  list_ = list;
  part_ = 0;
  while (kept_.size() > kMaxGraphs) {
    kept_.erase(std::ranges::min_element(kept_, {}, [](const auto& entry) { return entry.second.last_use; }));
  }
}

bool KeptGraphs::launch(std::span<const simt::Launch> launches) {
  const Key key{list_, part_++, kernels_of(launches)};
  if (launches.size() < kMinLaunches || !list_.weights) return false;
  const auto [at, is_new] = kept_.try_emplace(key);
  Kept& kept = at->second;
  kept.last_use = ++uses_;
  if (is_new) return false;
  bring_up_to_date(kept, launches);
  device_.launch(*kept.graph);
  ++counts_.launched;
  return true;
}

void KeptGraphs::bring_up_to_date(Kept& kept, std::span<const simt::Launch> launches) {
  const auto same_kernel = [](const simt::Launch& a, const simt::Launch& b) { return a.kernel == b.kernel; };
  if (!kept.graph || !std::ranges::equal(kept.launches, launches, same_kernel)) {
    kept.graph.reset();
    kept.graph = device_.make_graph(launches);
    kept.launches.assign(launches.begin(), launches.end());
    ++counts_.built;
    return;
  }
  for (std::size_t i = 0; i < launches.size(); ++i) {
    if (kept.launches[i] == launches[i]) continue;
    kept.graph->update(i, launches[i]);
    kept.launches[i] = launches[i];
    ++counts_.updated;
  }
}

}  // namespace yamata::cuda
