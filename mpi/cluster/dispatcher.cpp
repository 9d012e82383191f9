#include "mpi/cluster/dispatcher.hpp"

#include <algorithm>
#include <utility>

#include "mpi/protocol/validate.hpp"

namespace yamata {
namespace {

std::unique_ptr<Drafter> make_drafter(Transport& transport, const wire::Start& start, const wire::PipelinePlan& plan,
                                      std::unique_ptr<Pipeline> pipeline) {
  // The cells beyond the context are for open guesses.
  return std::make_unique<Drafter>(transport, std::move(pipeline), start.draft, plan.cells - start.draft.credit,
                                   SequenceRange{0, plan.sequences}, start.batch);
}

}  // namespace

void Dispatcher::build(const wire::Start& plan, const StageFactory& make_stage) {
  wire::validate(plan, transport_.size(), 0);
  for (const wire::PipelinePlan& part : plan.pipelines) {
    const auto place = part.place_of(transport_.rank());
    if (!place) continue;
    const PipelineRanks ranks{part.model == 0 ? kTargetChannel : kDraftChannel, part.stages()};
    auto model = make_stage(part, *place, plan.cache_types, join_group(part, *place, ranks));
    if (*place > 0) {
      channel_ = ranks.channel;
      model_ = std::move(model);
      stage_ = std::make_unique<Stage>(*model_, transport_, ranks);
      continue;
    }
    auto pipeline = std::make_unique<Pipeline>(transport_, ranks, std::move(model), part.cells, part.sequences);
    if (plan.trace) pipeline->stage().trace().enable();
    if (part.model == 0) {
      target_ = std::move(pipeline);
    } else {
      drafter_ = make_drafter(transport_, plan, part, std::move(pipeline));
    }
  }
  if (plan.trace && stage_) stage_->trace().enable();
  if (!plan.trace) return;
  for (const Group& group : groups_) group.exchange->keep_times();
}

GroupMember Dispatcher::join_group(const wire::PipelinePlan& plan, std::size_t place, const PipelineRanks& ranks) {
  GroupMember member = plan.member(place);
  if (member.shares.size() > 1) {
    groups_.push_back({transport_.join_group(ranks.group(transport_.rank()), plan.model), plan.model > 0});
    member.exchange = groups_.back().exchange.get();
  }
  return member;
}

Stage* Dispatcher::stage() const {
  if (target_) return &target_->stage();
  return drafter_ ? &drafter_->pipeline().stage() : stage_.get();
}

void Dispatcher::load() {
  stage()->load();
  if (target_ && drafter_) drafter_->pipeline().stage().load();
}

bool Dispatcher::loaded() const { return stage() && stage()->loaded() && (!drafter_ || drafter_->pipeline().stage().loaded()); }

bool Dispatcher::dispatch(Message& message) {
  if (message.tag == Tag::kGuesses && on_guesses) {
    on_guesses(message.from, wire::decode_guesses(message.bytes));
  } else if (message.tag == Tag::kCommit && drafter_) {
    drafter_->on_commit(wire::decode_commit(message.bytes));
  } else if (target_ && kTargetChannel.carries(message.tag)) {
    target_->on_message(std::move(message));
  } else if (drafter_ && kDraftChannel.carries(message.tag)) {
    drafter_->pipeline().on_message(std::move(message));
  } else {
    return stage_ && to_stage(message);
  }
  return true;
}

bool Dispatcher::to_stage(Message& message) {
  if (message.tag == channel_.record) {
    stage_->on_record(std::move(message.bytes));
  } else if (message.tag == channel_.activations) {
    stage_->on_activations(std::move(message.bytes));
  } else if (message.tag == channel_.cancel) {
    stage_->on_cancel(wire::decode_cancel(message.bytes));
  } else {
    return false;
  }
  return true;
}

bool Dispatcher::advance() {
  bool anything = false;
  if (target_) anything |= target_->advance();
  if (drafter_) anything |= drafter_->advance();
  if (stage_) anything |= stage_->advance();
  return anything;
}

void Dispatcher::describe(wire::Report& report, std::int64_t clock_offset_us) const {
  if (!stage()) return;
  stage()->describe(report);
  report.events = stage()->trace().shifted(clock_offset_us);
  for (const auto& [exchange, draft] : groups_) {
    for (const ExchangeTime& time : exchange->times())
      report.events.push_back({TraceEvent::Kind::kExchange, draft, 0, 0, Trace::microseconds(time.begin) + clock_offset_us,
                               Trace::microseconds(time.end) + clock_offset_us});
  }
  if (!target_ || !drafter_) return;
  Stage& draft = drafter_->pipeline().stage();  // which takes turns with the target's
  report.busy_s += draft.counters().busy_s;
  report.draft_run_s = draft.cost().measured_s();
  const auto events = draft.trace().shifted(clock_offset_us);
  report.events.insert(report.events.end(), events.begin(), events.end());
}

}  // namespace yamata
