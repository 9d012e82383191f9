#include "mpi/cluster/speed_measurement.hpp"

#include <fmt/format.h>

#include "node/error.hpp"

namespace yamata {

MeasuringOrder::MeasuringOrder(const std::vector<wire::Hello>& hellos) {
  std::uint64_t unknown = 0;
  for (int rank = 0; rank < std::ssize(hellos); ++rank) {
    const std::uint64_t machine = hellos[static_cast<std::size_t>(rank)].machine;
    machines_.push_back(machine != 0 ? machine : --unknown);
    waiting_[machines_.back()].push_back(rank);
  }
}

std::vector<int> MeasuringOrder::first() const {
  std::vector<int> ranks;
  for (const auto& [machine, waiting] : waiting_) ranks.push_back(waiting.front());
  return ranks;
}

std::optional<int> MeasuringOrder::after(int rank) {
  const auto machine = waiting_.find(machines_[static_cast<std::size_t>(rank)]);
  if (machine == waiting_.end() || machine->second.front() != rank)
    throw ClusterError(fmt::format("rank {} has measured its speed unasked; do all ranks run the same yamata?", rank));
  machine->second.erase(machine->second.begin());
  if (!machine->second.empty()) return machine->second.front();
  waiting_.erase(machine);
  return std::nullopt;
}

}  // namespace yamata
