#pragma once
// The reports that ranks give of themselves, when they are asked and at the end.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "mpi/transport/idle.hpp"

namespace yamata {

/// What every rank's report says, whatever it holds. `sent_before`: bytes it had sent when the job began.
wire::Report report_of_rank(const Transport& transport, const Idle& idle, std::uint64_t sent_before, const std::string& host,
                            const std::string& role);

/// Those that have come, one per rank.
class Reports {
 public:
  explicit Reports(int ranks) : reports_(static_cast<std::size_t>(ranks)) {}

  void came(int rank, wire::Report report) { reports_[static_cast<std::size_t>(rank)] = std::move(report); }
  bool has(int rank) const { return reports_[static_cast<std::size_t>(rank)].has_value(); }
  /// Those that have come, which are forgotten; the others have the role "lost".
  std::vector<wire::Report> take();

 private:
  std::vector<std::optional<wire::Report>> reports_;
};

}  // namespace yamata
