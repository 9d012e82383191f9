#pragma once
// GroupBenchmark: measures the time of layers that several ranks share, with computing, messages and waits for each other, by computing
// some.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "mpi/transport/transport.hpp"
#include "node/clock.hpp"
#include "src/model/stage_model.hpp"

namespace yamata {

/// Makes this rank's part of the layers of a group benchmark.
using LayerFactory = std::function<std::unique_ptr<StageModel>(LayerRange layers, const GroupMember& group)>;

/// One member's part of a group benchmark: loads its columns of the layers, then computes them repeatedly for one token. A state machine.
class SharedLayer {
 public:
  /// Throws what `make_layer` throws. `transport` must outlive this.
  SharedLayer(Transport& transport, const wire::BenchmarkRequest& wanted, const LayerFactory& make_layer);
  /// Ends the wait for other members.
  ~SharedLayer();
  SharedLayer(const SharedLayer&) = delete;
  SharedLayer& operator=(const SharedLayer&) = delete;

  /// Continues after a computation has ended; true if one had.
  bool advance();
  bool finished() const { return runs_ == wanted_; }
  /// Means over the counted runs, except the longest, which may have been disturbed. The first few runs do not count. After the end.
  wire::BenchmarkResult result() const;

 private:
  void begin_run();
  void end_run();

  std::unique_ptr<GroupExchange> exchange_;
  std::unique_ptr<StageModel> layer_;
  std::vector<float> activations_;
  const int wanted_;                              // number of runs
  int runs_ = -1;                                 // runs that have ended; -1: the weights are being loaded
  std::size_t earlier_ = 0;                       // exchanges before the current run
  double busy_s_ = 0;                             // the unit's busy time before the current run
  std::vector<double> computing_s_, exchange_s_;  // of each run that counts
};

/// The result of a group.
struct GroupTime {
  std::vector<int> ranks;
  double computing_s = 0;  ///< for the layers and one token: the mean over the members
  double exchange_s = 0;   ///< for one exchange, including the wait for later members: the mean over the members
};

/// Returns the next group to benchmark, given the results so far; the head is one of its members. Nothing: no more.
using NextGroup = std::function<std::optional<wire::BenchmarkRequest>(std::span<const GroupTime> so_far)>;

/// The head's part: benchmarks one group after the other.
class GroupBenchmark {
 public:
  GroupBenchmark(Transport& transport, NextGroup next, LayerFactory make_layer);

  /// Takes a member's result. Throws ClusterError if that rank was not asked.
  void on_answer(int from, const wire::BenchmarkResult& answer);
  bool advance();
  bool finished() const { return !group_; }
  const std::vector<GroupTime>& times() const { return times_; }
  /// Whether this rank is in the group that is benchmarked now.
  bool computing() const { return own_ != nullptr; }

 private:
  void ask();

  Transport& transport_;
  const NextGroup next_;
  const LayerFactory make_layer_;
  std::vector<GroupTime> times_;
  std::optional<wire::BenchmarkRequest> group_;  // the group that is benchmarked now
  std::vector<wire::BenchmarkResult> answers_;   // of its members
  std::unique_ptr<SharedLayer> own_;
};

}  // namespace yamata
