#include "mpi/cluster/dispatcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mpi/protocol/validate.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

std::unique_ptr<Drafter> make_drafter(Transport& transport, const wire::Start& start, const wire::PipelinePlan& plan,
                                      std::unique_ptr<Pipeline> pipeline) {
  // The cells beyond those of texts are for guesses that are not decided. Layers with a window keep only the current text.
  const Drafting drafting{
      .options = start.draft, .model = plan.model, .context = plan.cells - plan.slots * start.draft.room(), .batch = start.batch};
  Drafter::Sequences sequences;
  for (std::int32_t slot = 0; slot < plan.slots; ++slot) sequences.texts.push_back(plan.sequences_of(slot));
  if (plan.window_cells == 0) sequences.kept = plan.kept_sequences();
  return std::make_unique<Drafter>(transport, std::move(pipeline), drafting, sequences);
}

}  // namespace

/// Before any model is destroyed: each waits until its unit is done, and the unit may be computing another model's run with ranks that have
/// left.
Dispatcher::~Dispatcher() {
  for (const Group& group : groups_) group.exchange->abandon();
}

void Dispatcher::build(const wire::Start& plan, const StageFactory& make_stage) {
  wire::validate(plan, transport_.size(), 0);
  job_ = plan.job;
  for (const wire::PipelinePlan& part : plan.pipelines) {
    const auto place = part.place_of(transport_.rank());
    if (!place) continue;
    const PipelineRanks ranks = ranks_of(part);
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
      drafters_[part.model] = make_drafter(transport_, plan, part, std::move(pipeline));
    }
  }
  if (plan.trace && stage_) stage_->trace().enable();
  if (!plan.trace) return;
  for (const Group& group : groups_) group.exchange->keep_times();
}

/// A rank may hold several drafts that are on no other rank.
PipelineRanks Dispatcher::ranks_of(const wire::PipelinePlan& plan) const {
  const Channel channel = plan.model == 0 ? kTargetChannel : plan.ranks.size() == 1 ? own_channel(plan.model) : kDraftChannel;
  return {channel, plan.stages(), job_};
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
  return drafts() ? &drafters_.begin()->second->pipeline().stage() : stage_.get();
}

void Dispatcher::load() {
  if (target_ || stage_) stage()->load();
  for (const auto& [model, drafter] : drafters_) drafter->pipeline().stage().load();
}

bool Dispatcher::loaded() const {
  const auto ready = [](const auto& draft) { return draft.second->pipeline().stage().loaded(); };
  return stage() && stage()->loaded() && std::all_of(drafters_.begin(), drafters_.end(), ready);
}

/// A cancellation that stages pass on may come when its runs have ended everywhere, and the head has begun the next job.
bool Dispatcher::is_of_an_earlier_job(const Message& message) const {
  return (message.tag == Tag::kCancel || message.tag == Tag::kDraftCancel) && wire::decode_cancel(message.bytes).job != job_;
}

bool Dispatcher::dispatch(Message& message) {
  if (is_of_an_earlier_job(message)) return true;
  if (message.tag == Tag::kGuesses && on_guesses) {
    on_guesses(message.from, wire::decode_guesses(message.bytes));
  } else if (target_ && kTargetChannel.carries(message.tag)) {
    target_->on_message(std::move(message));
  } else {
    return to_drafter(message) || (stage_ && to_stage(message));
  }
  return true;
}

bool Dispatcher::to_drafter(Message& message) {
  if (message.tag == Tag::kCommit && drafts()) {
    const wire::Commit commit = wire::decode_commit(message.bytes);
    const auto drafter = drafters_.find(commit.model);
    if (drafter == drafters_.end()) throw ClusterError(fmt::format("rank {} told text to a draft that is not here", message.from));
    drafter->second->on_commit(commit);
    return true;
  }
  for (const auto& [model, drafter] : drafters_) {
    if (!drafter->pipeline().ranks().channel.carries(message.tag)) continue;
    drafter->pipeline().on_message(std::move(message));
    return true;
  }
  return false;
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
  for (const auto& [model, drafter] : drafters_) anything |= drafter->advance();
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
  for (const auto& [model, drafter] : drafters_) {
    Stage& draft = drafter->pipeline().stage();
    report.draft_s += draft.counters().busy_s;
    report.candidates_s += drafter->candidates_s();
    if (&draft == stage()) continue;
    report.busy_s += draft.counters().busy_s;  // the draft shares this rank's compute unit
    const ComputeUnit& unit = draft.model().unit();
    if (&unit != &stage()->model().unit() && report.device.find("guesses on") == std::string::npos)
      report.device += ", guesses on " + unit.device();
    if (report.draft_run_s.empty()) report.draft_run_s = draft.cost().measured_s();
    const auto events = draft.trace().shifted(clock_offset_us);
    report.events.insert(report.events.end(), events.begin(), events.end());
  }
}

}  // namespace yamata
