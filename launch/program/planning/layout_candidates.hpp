#pragma once
// The possible layouts of a job on some machines: which host holds what of the target, and which one drafts.
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi/decoding/speculation_options.hpp"
#include "mpi/planning/layout.hpp"
#include "mpi/simulation/virtual_network.hpp"
#include "src/model/model_file.hpp"
#include "src/simulation/width_cost.hpp"

namespace yamata {

/// A machine as numbers.
struct PlannedHost {
  std::string name{};
  double ns_per_byte = 1;         ///< time per byte of the target's weights, for one token
  simulation::WidthCost width{};  ///< relative time of runs with more tokens
  std::uint64_t free_bytes = std::numeric_limits<std::uint64_t>::max();
  int threads = 1;
  std::optional<simulation::NetworkOptions> link{};  ///< to the first host, if known
};

/// Which host holds what, and the strategy.
struct LayoutCandidate {
  Layout layout;  ///< ranks are indices in the list of hosts; shares are numbers of layers, and within a group the members' shares of them
  std::vector<LayerRange> stages;  ///< of the target
  Strategy strategy = Strategy::kIterative;

  int hosts() const;
  bool draft_on_head() const { return layout.size() > 1 && layout[1].ranks.front() == 0; }
};

/// The first host, then the others in descending order of speed.
std::vector<int> hosts_by_speed(std::span<const PlannedHost> hosts);

/// A link with the worst latency and the worst rate of these hosts' links; `network` if none is known.
simulation::NetworkOptions slowest_link(std::span<const PlannedHost> hosts, std::span<const int> ranks,
                                        const simulation::NetworkOptions& network);

/// Pipelines, groups, and pipelines of groups, on subsets of the hosts that contain the first host, since it leads. The drafter is on a
/// host of its own (the slowest or the fastest of the others), on the first host, or there is none. Layers are divided by the hosts' speeds
/// and memory, with `layer_cache_bytes` of cache per layer; layouts that do not fit are omitted. `drafts`: there is a draft model.
std::vector<LayoutCandidate> layout_candidates(const ModelFile& target, std::span<const PlannedHost> hosts, bool drafts,
                                               std::uint64_t layer_cache_bytes);

/// The hosts' names: "a+b,c/d".
std::string host_names(const LayoutCandidate& candidate, std::span<const PlannedHost> hosts);

}  // namespace yamata
