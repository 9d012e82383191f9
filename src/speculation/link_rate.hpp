#pragma once
// Estimates the time of a row on the links between stages, from the times at which results arrive.
#include <limits>
#include <vector>

namespace yamata {

/// A run whose result has arrived. Times are seconds of the head's clock.
struct ReturnedRun {
  int rows = 1;
  double stage_s = 0;  ///< time of its rows on a stage
  double sent_s = 0, returned_s = 0;
  bool skipped = false;                                          ///< stopped somewhere in the pipeline
  double cancelled_s = std::numeric_limits<double>::infinity();  ///< when the stages were told to
  bool told_backward = false;                                    ///< the last stage first, which told the one before it, and so on
};

/// Learns how long a row occupies a link. For each of many rates it replays the sent runs: a run passes stages and links one after another,
/// and waits on each for the previous run. The rest of the true time is latency, which is the same for every run if the rate is right. So
/// the error of a rate is the variation of these rests, with more weight for recent runs. If several rates explain the results equally
/// well, the lowest is used: if it is too low, wider runs are sent, which show it. All links are assumed to be equal. All stages are
/// assumed to be equal, except that one may be slower, so that its queue is not mistaken for that of a link.
class LinkRate {
 public:
  /// `result_share`: bytes of a row from the last of `stages` stages back to the head, relative to its bytes between two stages.
  LinkRate(int stages, double result_share);

  /// Sets the estimate before any result; lower rates are considered unlikely.
  void expect(double row_s);
  /// Records a result. Results arrive in the order in which their runs were sent.
  void returned(const ReturnedRun& run);
  /// Seconds of a row on a link between two stages.
  double row_s() const { return rates_[current_].row_s; }
  /// The same on the way back.
  double result_s() const { return result_share_ * row_s(); }

 private:
  /// The job as it would have run at one rate.
  struct Replay {
    double row_s = 0;
    double slowest = 1;                             // time of the slowest stage, relative to the head's stage
    std::vector<double> stage_free_s, link_free_s;  // when each has finished the runs so far; the last link leads back to the head
    double latency_s = 0;                           // of all messages of a run together
    double error_s = 0;                             // sum over the runs
  };
  double replay(Replay& rate, const ReturnedRun& run) const;
  static void shift(Replay& rate, double late_s);
  void choose(double stage_s);

  const double result_share_;
  std::vector<Replay> rates_;  // ascending
  double runs_ = 0;            // that were computed
  std::size_t current_ = 0;
};

/// An upper bound for the seconds of a row on a link, from the time of a prompt: the part of `prompt_s` (from its first run to its last
/// result) in which the stages did not compute, for `chunks` runs of `stage_s` seconds with `rows` rows together. 0 if there is no link.
double most_link_s(int stages, int chunks, int rows, double stage_s, double prompt_s);

}  // namespace yamata
