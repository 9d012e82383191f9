#pragma once
// Runs the tests of one job of yamata bench and takes their times.
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "launch/commands/bench_options.hpp"
#include "mpi/cluster/head.hpp"

namespace yamata {

struct BenchTimes {
  std::vector<std::uint64_t> samples_ns;  ///< per repetition: the whole of it, or of runs of a width the mean of one
  // Of the timed part, all repetitions together:
  double wall_s = 0;
  std::vector<double> busy_s;  ///< per rank: spent computing
  std::uint64_t tokens = 0;    ///< that went through the pipeline
};

class BenchRunner {
 public:
  /// `head` has started a job whose context holds the largest test. `first`: the token texts begin with, -1 for none.
  BenchRunner(Head& head, std::int64_t vocabulary, std::int32_t first, int batch);

  /// `on_repetition` is told how many are done, before each. Tokens are random: they make no difference to the work.
  BenchTimes run(const BenchTest& test, int repetitions, bool warms_up, const std::function<void(int done)>& on_repetition);

 private:
  enum class Wanted { kNone, kLast, kAll };  ///< whose logits
  /// Sends a run of tokens that follow those in the cache.
  void submit(int tokens, Wanted logit_rows);
  /// Waits until so many runs at most are out.
  void drain(std::size_t most_out);
  /// Forgets all but the first tokens, in front of the next run.
  void cut_to(int tokens);
  /// Makes the cache hold this many tokens.
  void reach(int depth);
  void prompt(int tokens);
  void generate(int tokens);
  /// Runs of this width in the same place, one after the other, for a while; how many.
  int check(int width);
  /// A repetition; how many parts it consists of.
  int work(const BenchTest& test);
  void warm_up(const BenchTest& test);
  std::int32_t random_token();

  Head& head_;
  std::int64_t vocabulary_;
  std::int32_t first_;
  int batch_;
  int held_ = 0;                   // tokens in the cache
  bool cut_ = false;               // what is beyond them has yet to be removed
  std::deque<std::uint64_t> out_;  // runs whose results have not been waited for
  std::mt19937 random_;
};

}  // namespace yamata
