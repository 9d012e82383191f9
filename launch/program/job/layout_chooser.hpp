#pragma once
// Chooses what the flags leave open of a job's layout, on rank 0.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "launch/program/job/expected_text.hpp"
#include "launch/program/job/job_experience.hpp"
#include "launch/program/job/job_rank.hpp"
#include "launch/program/planning/group_benchmarks.hpp"
#include "mpi/cluster/link_probe.hpp"

namespace yamata {

class LayoutChooser {
 public:
  /// The arguments outlive this.
  LayoutChooser(JobRank& rank, JobExperience& experience);

  /// The next group of ranks to benchmark before a layout is chosen; nothing: no more. As ClusterOptions::next_group.
  std::optional<wire::BenchmarkRequest> next_group(const std::vector<wire::Hello>& hellos, std::span<const Link> links,
                                                   std::span<const GroupTime> so_far);
  /// Sets layout and strategy, as far as they are open. `groups`: what was benchmarked. Throws ModelError if a rank lacks the file of its
  /// part.
  void choose(const std::vector<wire::Hello>& hellos, const ExpectedText& text, std::span<const GroupTime> groups);

 private:
  void choose_layout(const ExpectedText& text, std::span<const GroupTime> groups);
  void place_drafters_by_speed(const std::vector<wire::Hello>& hellos);
  GroupRecord group_record() const;

  JobRank& rank_;
  JobExperience& experience_;
  std::vector<PlannedHost> machines_;  // set when the links are known
};

/// Bytes of a layer of the target on a device that computes it alone.
std::uint64_t layer_bytes(const JobRank& rank);

}  // namespace yamata
