#include "mpi/cluster/reports.hpp"

#include <utility>

#include "node/device_memory.hpp"
#include "node/topology.hpp"

namespace yamata {

wire::Report report_of_rank(const Transport& transport, const Idle& idle, std::uint64_t sent_before, const std::string& host,
                            const std::string& role) {
  wire::Report report;
  report.host = host;
  report.role = role;
  report.wait_s = idle.slept_s();
  report.wait_cpu_s = idle.cpu_s();
  report.bytes_sent = transport.bytes_sent() - sent_before;
  report.rss_bytes = own_memory_bytes();
  report.device_peak_bytes = peak_device_bytes();
  return report;
}

std::vector<wire::Report> Reports::take() {
  std::vector<wire::Report> taken;
  for (auto& report : reports_) {
    taken.push_back(report ? std::move(*report) : wire::Report{});
    if (!report) taken.back().role = "lost";
    report.reset();
  }
  return taken;
}

}  // namespace yamata
