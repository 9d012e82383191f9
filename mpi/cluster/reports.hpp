#pragma once
// The reports of ranks, on request and at the end of a job.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "mpi/transport/idle.hpp"

namespace yamata {

/// The part of a report that all ranks have. `sent_before`: bytes the rank had sent when the job began.
wire::Report report_of_rank(const Transport& transport, const Idle& idle, std::uint64_t sent_before, const std::string& host,
                            const std::string& role);

/// The reports that have arrived, one per rank.
class Reports {
 public:
  explicit Reports(int ranks) : reports_(static_cast<std::size_t>(ranks)) {}

  void came(int rank, wire::Report report) { reports_[static_cast<std::size_t>(rank)] = std::move(report); }
  bool has(int rank) const { return reports_[static_cast<std::size_t>(rank)].has_value(); }
  /// Takes the reports that have arrived; missing ranks have the role "lost".
  std::vector<wire::Report> take();

 private:
  std::vector<std::optional<wire::Report>> reports_;
};

}  // namespace yamata
