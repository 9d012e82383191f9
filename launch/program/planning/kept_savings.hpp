#pragma once
// What a draft saves, kept from one job to the next.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/program/planning/measurement_cache.hpp"
#include "mpi/decoding/decoder.hpp"
#include "mpi/planning/layout.hpp"
#include "src/sampling/sampler.hpp"

namespace yamata {

/// What the savings of a draft depend on, apart from its rank's speed.
struct SavingsConditions {
  const DecodeOptions& decode;
  const SamplingParams& sampling;
  const Layout& layout;
  const std::vector<std::uint64_t>& fingerprints;  ///< of the layout's models
};
/// A number that differs if the conditions differ: strategy, options of guesses, the other sources, places, sampling without the seed.
std::uint64_t fingerprint(const SavingsConditions& conditions);

/// The savings of one draft: those of earlier jobs, to which this job's are added. All expire together, a day after the first of them: so
/// no result lives for ever because each job adds a few steps. A draft that is used much forgets old results earlier, see DraftBalance.
class KeptSavings {
 public:
  /// Reads them from `folder`. `now_s`: seconds since the epoch.
  KeptSavings(std::string folder, MeasurementKey key, std::int64_t now_s);

  /// Of earlier jobs, if there were any.
  const std::optional<Savings>& earlier() const { return earlier_; }
  /// Keeps `all`, the earlier savings with this job's, unless this job has added no step.
  void keep(const DraftSums& all, std::int64_t now_s) const;

 private:
  std::string folder_;
  MeasurementKey key_;
  std::optional<Savings> earlier_;
};

}  // namespace yamata
