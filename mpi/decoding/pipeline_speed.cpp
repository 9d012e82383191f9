#include "mpi/decoding/pipeline_speed.hpp"

#include <algorithm>

namespace yamata {

void PipelineSpeed::text_began(double result_share) {
  if (++texts_ == 1) rate_ = TextRate();  // there was none for a while
  if (links_ && result_share == result_share_) return;
  result_share_ = result_share;
  links_.emplace(target_.ranks().count(), result_share);
  links_expected_ = false;
}

void PipelineSpeed::prompt_returned(Clock::time_point began, int rows, int chunks, double busy_s) {
  if (texts_ > 1 || links_expected_) return;
  links_expected_ = true;
  links_->expect(most_link_s(target_.ranks().count(), chunks, rows, busy_s / chunks, Clock::seconds_since(began)) / 2);
}

void PipelineSpeed::run_returned(const TreeRuns::Run& run, bool skipped, bool told_backward) {
  const auto rows = static_cast<int>(run.nodes.size());
  if (!skipped && run.has_root && run.rows > 0) {
    turnaround_.ran(run.rows, Clock::seconds_since(run.sent));
    if (run.unhindered) unhindered_.ran(run.rows, Clock::seconds_since(run.sent));
  }
  if (texts_ > 1) return;
  links_->returned({.rows = rows,
                    .stage_s = target_.stage().cost().run_s(rows),
                    .sent_s = since_origin(run.sent),
                    .returned_s = since_origin(Clock::now()),
                    .skipped = skipped,
                    .cancelled_s = run.cancelled ? since_origin(run.cancelled_at) : std::numeric_limits<double>::infinity(),
                    .told_backward = told_backward});
}

void PipelineSpeed::text_came(int tokens, double seconds, bool alone, bool first) {
  rate_.text_came(tokens);
  if (!first && texts_ == 1) alone_.step_ended(seconds, alone);
}

int PipelineSpeed::depth(int rows) const {
  const int stages = target_.ranks().count();
  const double stage_s = target_.stage().cost().run_s(rows);
  return stage_s > 0 ? std::max(stages, static_cast<int>(unhindered_.run_s(rows) / stage_s)) : stages;
}

TargetTimes PipelineSpeed::times(bool in_turns) const {
  return {.stages = target_.ranks().count(),
          .stage_s = target_.stage().cost().run_s(1),
          .round_trip_s = turnaround_.run_s(1),
          .text_rate = rate_.per_s(),
          .link_s = links_ ? links_->row_s() : 0,
          .result_s = links_ ? links_->result_s() : 0,
          .in_turns = in_turns};
}

}  // namespace yamata
