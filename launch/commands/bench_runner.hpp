#pragma once
// Runs the tests of one job of yamata bench and measures their times.
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
  std::vector<std::uint64_t> samples_ns;  ///< per repetition: the whole time; for a width: the mean time of its runs
  // Of the measured part, for all repetitions together:
  double wall_s = 0;
  std::vector<double> busy_s;  ///< per rank: time spent computing
  std::uint64_t tokens = 0;    ///< tokens that went through the pipeline
};

class BenchRunner {
 public:
  /// `head` has started a job whose context is large enough for every test. `first`: the token with which texts begin; -1: none.
  /// `grows`: nothing can be removed from the end of a text, as the model has states; each repetition at a depth then computes it anew.
  BenchRunner(Head& head, std::int64_t vocabulary, std::int32_t first, int batch, bool grows);

  /// Before each repetition, `on_repetition` is called with the number of finished ones. Tokens are random: they do not change the work.
  BenchTimes run(const BenchTest& test, int repetitions, bool warms_up, const std::function<void(int done)>& on_repetition);

 private:
  enum class Wanted { kNone, kLast, kAll };  ///< the rows whose logits are requested
  /// Sends a run of tokens that follow those in the cache.
  void submit(int tokens, Wanted logit_rows);
  /// Waits until at most `most_out` runs are in flight.
  void drain(std::size_t most_out);
  /// Removes all but the first tokens from the cache, before the next run.
  void cut_to(int tokens);
  /// Fills the cache to this many tokens.
  void reach(int depth);
  void prompt(int tokens);
  void generate(int tokens);
  /// Does runs of this width at the same position for a while; returns their number.
  int check(int width);
  /// Does a repetition; returns the number of its parts.
  int work(const BenchTest& test);
  void warm_up(const BenchTest& test);
  std::int32_t random_token();

  Head& head_;
  std::int64_t vocabulary_;
  std::int32_t first_;
  int batch_;
  bool grows_;
  int held_ = 0;                   // tokens in the cache
  bool cut_ = false;               // the cells beyond `held_` must still be removed
  std::deque<std::uint64_t> out_;  // runs in flight
  std::mt19937 random_;
};

}  // namespace yamata
