#pragma once
// Links between machines, remembered from one job to the next, so that the same cluster plans the same layout.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mpi/cluster/link_probe.hpp"
#include "mpi/protocol/wire.hpp"

namespace yamata {

/// Per rank: the link kept in `folder` for less than a day where what was measured now agrees, latency to a third and rate to a factor of
/// two; else what was measured, which is kept. `renew`: what is kept does not count. `now_s`: seconds of the calendar clock.
std::vector<Link> settled_links(const std::string& folder, std::span<const wire::Hello> hellos, std::span<const Link> measured,
                                std::int64_t now_s, bool renew);

}  // namespace yamata
