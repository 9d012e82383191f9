#pragma once
// The ways in which some machines could run a job: who holds what of the target, and who drafts.
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
  simulation::WidthCost width{};  ///< what more tokens at once cost
  std::uint64_t free_bytes = std::numeric_limits<std::uint64_t>::max();
  int threads = 1;
  std::optional<simulation::NetworkOptions> link{};  ///< with the first host, where it is known
};

/// Who holds what, and how the text is guessed.
struct LayoutCandidate {
  Layout layout;  ///< ranks are places in the list of hosts; shares are layers, those of a group's members their parts of them
  std::vector<LayerRange> stages;  ///< of the target
  Strategy strategy = Strategy::kIterative;

  int hosts() const;
  bool draft_on_head() const { return layout.size() > 1 && layout[1].ranks.front() == 0; }
};

/// The first host, then the others from the fastest on.
std::vector<int> hosts_by_speed(std::span<const PlannedHost> hosts);

/// A link as slow in each respect as the slowest of those that these have; `network` where none is known.
simulation::NetworkOptions slowest_link(std::span<const PlannedHost> hosts, std::span<const int> ranks,
                                        const simulation::NetworkOptions& network);

/// Pipelines, groups, and pipelines of groups of some of the hosts, the first among them, since it leads: with a drafter on a host of its
/// own (the slowest or the fastest of the others), on the first host, or none. Layers are shared out by the hosts' speeds and memory at
/// `layer_cache_bytes` of cache per layer; what finds no room is left out. `drafts`: there is a draft model.
std::vector<LayoutCandidate> layout_candidates(const ModelFile& target, std::span<const PlannedHost> hosts, bool drafts,
                                               std::uint64_t layer_cache_bytes);

/// Who holds what, by name: "a+b,c/d".
std::string host_names(const LayoutCandidate& candidate, std::span<const PlannedHost> hosts);

}  // namespace yamata
