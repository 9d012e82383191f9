#pragma once
// Graphs of launches that have come before: one for each part of a list, width class and share.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "node/cuda/device.hpp"

namespace yamata::cuda {

/// What a list of operations is told by.
struct ListShape {
  const void* weights = nullptr;  ///< its first matrix: which model and layers
  std::int64_t rows = 0;          ///< tokens
  std::size_t ops = 0;
};

/// How often what has been done.
struct GraphCounts {
  std::uint64_t launched = 0, built = 0, updated = 0;  ///< graphs; graphs; launches within them that had to be changed
};

/// Launches that come for the second time become a graph. It is found by where in which list they are and by their kernels, which are
/// others for another class of widths; before each run every launch of it that differs from what is asked for, in shape or parameter, is
/// replaced. So what runs is always what is asked for, whatever is found.
class KeptGraphs {
 public:
  explicit KeptGraphs(Device& device) : device_(device) {}

  /// Before a list, when the graphs of the last one have ended.
  void begin(const ListShape& list);
  /// Puts the launches into the stream as one, where they are worth a graph and have come before. False: nothing has been done.
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
    std::unique_ptr<DeviceGraph> graph;  // null: they have come once
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
