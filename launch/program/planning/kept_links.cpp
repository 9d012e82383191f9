#include "launch/program/planning/kept_links.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "launch/program/planning/measurement_cache.hpp"

namespace yamata {
namespace {

bool same(const Link& a, const Link& b) {
  return within_factor(4.0 / 3, a.latency_s, b.latency_s) && within_factor(2, a.bytes_per_s, b.bytes_per_s);
}

}  // namespace

std::vector<Link> settled_links(const std::string& folder, std::span<const wire::Hello> hellos, std::span<const Link> measured,
                                std::int64_t now_s, bool renew) {
  std::vector<Link> links(measured.begin(), measured.end());
  for (std::size_t r = 1; r < std::min(links.size(), hellos.size()); ++r) {
    const MeasurementKey key{.host = hellos[0].host + "-" + hellos[r].host,
                             .isa = "link",
                             .local_rank = static_cast<int>(r),
                             .local_size = static_cast<int>(hellos.size())};
    const auto kept = renew ? std::nullopt : read_link(folder, key, now_s);
    if (kept && same(*kept, links[r])) {
      links[r] = *kept;
    } else {
      keep_link(folder, key, links[r], now_s);
    }
  }
  return links;
}

std::string pacing_warning(std::span<const Link> links, const std::string& congestion_control) {
  constexpr double kFar_s = 1e-3;  // below, the delay is as short as the latency
  const double latency_s = links.empty() ? 0 : std::ranges::max(links, {}, &Link::latency_s).latency_s;
  if (!congestion_control.starts_with("bbr") || latency_s < kFar_s) return "";
  return fmt::format(
      "TCP uses {} here, which delays short messages on links of {:.0f} ms; on every machine: sudo sysctl "
      "net.ipv4.tcp_congestion_control=cubic",
      congestion_control, 1e3 * latency_s);
}

}  // namespace yamata
