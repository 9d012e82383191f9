#pragma once
// The options of yamata bench, and its jobs.
#include <string>
#include <vector>

#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

/// One line of the table.
struct BenchTest {
  int prompt = 0, generate = 0;  ///< tokens; if both are given, first the prompt, then the generation
  int width = 0;                 ///< or: runs of this many tokens with all logits, each at the same position
  int depth = 0;                 ///< tokens in the cache before the test

  int tokens() const { return width ? width : prompt + generate; }
  /// "pp512", "tg128", "pp512+tg128" or "w8", followed by " @ d1024" if there is a depth.
  std::string name() const;
};

/// The order is model, threads, batch, type of keys, type of values; for each combination, all tests at each depth.
struct BenchOptions {
  JobOptions job;  ///< common to all jobs
  std::vector<std::string> models;
  std::vector<int> threads, batches;
  bool measure_threads = false;  ///< if threads are 0
  std::vector<CacheType> k_types, v_types;
  std::vector<BenchTest> tests;
  int repetitions = 5;
  std::string output = "md", error_output = "none";  ///< -o, -oe
  bool warm_up = true;

  /// The most tokens that a test has in the cache.
  int context() const;
  bool has_widths() const;
};

Flags bench_flags();
/// Throws UsageError naming the invalid flag.
BenchOptions read_bench(const GivenFlags& result);

/// The jobs for these options, one after another, the same on every rank: one for each model, number of threads, batch and pair of cache
/// types.
std::vector<JobOptions> jobs_of(const BenchOptions& options);

}  // namespace yamata
