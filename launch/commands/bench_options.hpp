#pragma once
// What yamata bench can be asked for, and the jobs that makes.
#include <cxxopts.hpp>
#include <string>
#include <vector>

#include "launch/options.hpp"

namespace yamata {

/// One line of the table.
struct BenchTest {
  int prompt = 0, generate = 0;  ///< tokens; both: the one after the other
  int width = 0;                 ///< or: runs of this many tokens, all logits asked for, each in the same place
  int depth = 0;                 ///< tokens that are in the cache before

  int tokens() const { return width ? width : prompt + generate; }
  /// "pp512", "tg128", "pp512+tg128" or "w8", and " @ d1024" at a depth.
  std::string name() const;
};

/// Lists are worked through in the order model, threads, batch, type of keys, type of values; for each all tests at each depth.
struct BenchOptions {
  JobOptions job;  ///< what all jobs share
  std::vector<std::string> models;
  std::vector<int> threads, batches;
  bool measure_threads = false;  ///< where threads are 0
  std::vector<CacheType> k_types, v_types;
  std::vector<BenchTest> tests;
  int repetitions = 5;
  std::string output = "md", error_output = "none";  ///< -o, -oe
  bool warm_up = true;

  /// Most tokens a test has in the cache.
  int context() const;
  bool has_widths() const;
};

cxxopts::Options bench_flags();
/// Throws UsageError naming the flag that makes no sense.
BenchOptions read_bench(const cxxopts::ParseResult& result);

/// The jobs that they ask for, one after another, the same on every rank: one for each model, threads, batch and types of cache.
std::vector<JobOptions> jobs_of(const BenchOptions& options);

}  // namespace yamata
