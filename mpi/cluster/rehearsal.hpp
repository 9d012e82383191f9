#pragma once
// What a layer takes that ranks share, found by sharing one: computing, messages, and how they wait for each other.
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

/// Makes the layers that are rehearsed, as this rank holds them.
using LayerFactory = std::function<std::unique_ptr<StageModel>(LayerRange layers, const GroupMember& group)>;

/// One member's part: loads its columns of the layers, then computes them for one token, again and again. A state machine.
class SharedLayer {
 public:
  /// Throws what `make_layer` throws. `transport` outlives this.
  SharedLayer(Transport& transport, const wire::Rehearse& wanted, const LayerFactory& make_layer);
  /// Whoever waits for the others gives up.
  ~SharedLayer();
  SharedLayer(const SharedLayer&) = delete;
  SharedLayer& operator=(const SharedLayer&) = delete;

  /// Goes on where a computation has ended; true if one had.
  bool advance();
  bool finished() const { return runs_ == wanted_; }
  /// The means of all runs but the first few, and but the longest: one that something held up does not count. After the end.
  wire::Rehearsed result() const;

 private:
  void begin_run();
  void end_run();

  std::unique_ptr<GroupExchange> exchange_;
  std::unique_ptr<StageModel> layer_;
  std::vector<float> activations_;
  const int wanted_;                        // runs
  int runs_ = -1;                           // that have ended; -1: it loads
  std::size_t met_ = 0;                     // exchanges before the run under way
  double busy_s_ = 0;                       // of the unit, before the run under way
  std::vector<double> computing_s_, meeting_s_;  // of each run that counts
};

/// What a group has taken.
struct GroupTime {
  std::vector<int> ranks;
  double computing_s = 0;  ///< of the layers and one token, on each member; the mean of all
  double meeting_s = 0;    ///< of one of its meetings, with the wait for members that come later; the mean of all
};

/// Which group is to rehearse after those, the head among its members; nothing: no more.
using NextGroup = std::function<std::optional<wire::Rehearse>(std::span<const GroupTime> so_far)>;

/// On the head: lets one group after the other rehearse.
class Rehearsal {
 public:
  Rehearsal(Transport& transport, NextGroup next, LayerFactory make_layer);

  /// Throws ClusterError where nobody asked.
  void on_answer(int from, const wire::Rehearsed& answer);
  bool advance();
  bool finished() const { return !group_; }
  const std::vector<GroupTime>& times() const { return times_; }
  /// This rank computes with others.
  bool computing() const { return own_ != nullptr; }

 private:
  void ask();

  Transport& transport_;
  const NextGroup next_;
  const LayerFactory make_layer_;
  std::vector<GroupTime> times_;
  std::optional<wire::Rehearse> group_;   // under way
  std::vector<wire::Rehearsed> answers_;  // of its members
  std::unique_ptr<SharedLayer> own_;
};

}  // namespace yamata
