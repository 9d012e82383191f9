#pragma once
// Measured links between machines, kept from one job to the next, so that the same cluster gets the same layout.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mpi/cluster/link_probe.hpp"
#include "mpi/protocol/wire.hpp"

namespace yamata {

/// Per rank: the link kept in `folder` for less than a day if the new measurement agrees with it, latency to a third and rate to a factor
/// of two; otherwise the new measurement, which is then kept. `renew`: ignore kept links. `now_s`: seconds since the epoch.
std::vector<Link> settled_links(const std::string& folder, std::span<const wire::Hello> hellos, std::span<const Link> measured,
                                std::int64_t now_s, bool renew);

}  // namespace yamata
