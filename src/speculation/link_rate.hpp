#pragma once
// What a row costs on the links between the stages, told from the times at which results come back.
#include <limits>
#include <vector>

namespace yamata {

/// A run whose result has come. Times are seconds of the head's clock.
struct ReturnedRun {
  int rows = 1;
  double stage_s = 0;  ///< what its rows take on a stage
  double sent_s = 0, returned_s = 0;
  bool skipped = false;                                          ///< left somewhere on its way
  double cancelled_s = std::numeric_limits<double>::infinity();  ///< when the stages were told to
};

/// Learns how long a row occupies a link. For each of many rates it replays what was sent: a run takes stages and links one after the
/// other, and waits on each for the run before it. What is left of the true time is latency, the same for every run if the rate is right.
/// So the error of a rate is by how much its remainders differ, those of late runs weighing more. Where several rates explain the results
/// alike, the least counts: if it is too low, wider runs are sent, which show it. All links are taken to be alike. So are all stages, but
/// that one may be slower, whose queue must not be taken for that of a link.
class LinkRate {
 public:
  /// `result_share`: what a row weighs on the way back from the last of `stages` stages to the head, of what it weighs between two.
  LinkRate(int stages, double result_share);

  /// Before any result: lower rates are unlikely.
  void expect(double row_s);
  /// Results come in the order in which their runs were sent.
  void returned(const ReturnedRun& run);
  /// By which a row occupies a link between two stages.
  double row_s() const { return rates_[current_].row_s; }
  /// The same on the way back.
  double result_s() const { return result_share_ * row_s(); }

 private:
  /// The job as it would have gone at one rate.
  struct Replay {
    double row_s = 0;
    double slowest = 1;                             // times the head's stage: what the slowest stage takes
    std::vector<double> stage_free_s, link_free_s;  // when each has done with the runs so far; the last link leads back to the head
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

/// What a row takes on a link at most, by the time of a prompt: of `prompt_s` from its first run to its last result, all that the stages
/// have not computed, in `chunks` runs of `stage_s` seconds and `rows` rows altogether. 0 where there is no link.
double most_link_s(int stages, int chunks, int rows, double stage_s, double prompt_s);

}  // namespace yamata
