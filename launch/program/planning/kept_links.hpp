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

/// A warning if connections with this congestion control delay messages on these links; otherwise empty. BBR sends the packets of a message
/// at the mean rate of the connection. That rate is low where short messages cross a link with a high latency: 4 KiB, alone on a link of
/// 100 Mbit/s and 25 ms, took 7 ms more instead of 0.3.
std::string pacing_warning(std::span<const Link> links, const std::string& congestion_control);

}  // namespace yamata
