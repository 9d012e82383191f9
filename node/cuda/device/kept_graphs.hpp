#pragma once
// Graphs of launches that were made before: one for each part of a list, width class and share.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "node/cuda/device/device.hpp"

namespace yamata::cuda {

/// Identifies a list of operations.
struct ListShape {
  const void* weights = nullptr;  ///< its first matrix: which model and layers
  std::int64_t rows = 0;          ///< tokens
  std::size_t ops = 0;
};

/// Counters.
struct GraphCounts {
  std::uint64_t launched = 0, built = 0, updated = 0;  ///< graphs; graphs; launches within them that had to be changed
};

/// When a sequence of launches comes for the second time, a graph is made. Its key is the list, the position in the list, and the kernels,
/// which differ between classes of widths. Before each run, every launch of the graph whose shape or parameter differs from the requested
/// one is replaced. So the graph always runs the requested launches, whichever graph was found.
class KeptGraphs {
 public:
  explicit KeptGraphs(Device& device) : device_(device) {}

  /// Begins a list; the graphs of the previous one must have ended.
  void begin(const ListShape& list);
  /// Launches them as a graph, if that is faster and they came before. False: nothing was launched.
  bool launch(std::span<const simt::Launch> launches);
  const GraphCounts& counts() const { return counts_; }

 private:
  struct Key {
    ListShape list;
    std::size_t part;
    std::uint64_t kernels;
    auto tie() const { return std::tie(list.weights, list.rows, list.ops, part, kernels); }
    bool operator<(const Key& other) const { return tie() < other.tie(); }
  };
  struct Kept {
    std::unique_ptr<DeviceGraph> graph;  // null: they came only once so far
    std::vector<simt::Launch> launches;
    std::uint64_t last_use = 0;
  };
  void bring_up_to_date(Kept& kept, std::span<const simt::Launch> launches);

  Device& device_;
  ListShape list_;
  std::size_t part_ = 0;
  std::uint64_t uses_ = 0;
  std::map<Key, Kept> kept_;
  GraphCounts counts_;
};

}  // namespace yamata::cuda
