#pragma once
// The parts of the models on one rank, and the dispatch of messages to them.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "mpi/decoding/drafter.hpp"
#include "mpi/pipeline/pipeline.hpp"

namespace yamata {

/// Makes the model part at `place` of a plan, for this rank; `group`: the ranks with which it shares the layers.
using StageFactory = std::function<std::unique_ptr<StageModel>(const wire::PipelinePlan& plan, std::size_t place, CacheTypes cache_types,
                                                               const GroupMember& group)>;

/// What every rank does with the messages of the models, in the program and in simulations:
///
///   tag                         handled by
///   record, activations, cancel the stage on this rank that another rank leads
///   logits                      the pipeline that this rank leads: the target's, or a draft's
///   commit                      the drafter named in it
///   guesses                     the registered listener (the engine)
///
/// All other tags concern the job: Head and Worker handle them.
class Dispatcher {
 public:
  explicit Dispatcher(Transport& transport) : transport_(transport) {}
  /// Ends all waits for other members of a group.
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// Builds this rank's part of a plan. The first rank of a pipeline leads it. A rank may hold one stage that another rank leads, or lead
  /// the target, drafts or both. Throws ClusterError if the plan is invalid, and what the factory throws.
  void build(const wire::Start& plan, const StageFactory& make_stage);
  /// The plan has no part for this rank, or there is no plan yet.
  bool empty() const { return !stage(); }
  /// Starts to load the weights into memory.
  void load();
  bool loaded() const;

  /// Dispatches a message; false: no part here handles it. Throws ClusterError if it is damaged.
  bool dispatch(Message& message);
  /// Advances every part; true if anything happened.
  bool advance();

  /// The target's pipeline, on the head.
  Pipeline* target() { return target_.get(); }
  const Pipeline* target() const { return target_.get(); }
  /// The target's stage on this rank; null: none.
  Stage* target_stage() const { return target_ ? &target_->stage() : channel_.record == kTargetChannel.record ? stage_.get() : nullptr; }
  /// Whether this rank drafts.
  bool drafts() const { return !drafters_.empty(); }
  /// Whether this rank's only part is of a draft.
  bool drafts_only() const { return drafts() ? !target_ && !stage_ : stage_ && channel_.record == kDraftChannel.record; }

  /// Sets the listener for a drafter's guesses.
  std::function<void(int rank, const wire::Guesses& guesses)> on_guesses;

  /// This rank's part of a heartbeat.
  wire::Heartbeat heartbeat() const { return stage() ? stage()->heartbeat() : wire::Heartbeat{}; }
  /// Whether this rank's threads compute.
  bool computing() const { return stage() && stage()->activity() == wire::Activity::kComputing; }
  /// Whether they do so together with other ranks.
  bool computing_in_group() const { return stage() && stage()->computing() && stage()->members() > 1; }
  /// Fills in the parts' section of a report; `clock_offset_us`: how far the head's clock is ahead.
  void describe(wire::Report& report, std::int64_t clock_offset_us) const;

 private:
  /// The stage that represents this rank in heartbeats and reports.
  Stage* stage() const;
  bool to_stage(Message& message);
  bool to_drafter(Message& message);
  PipelineRanks ranks_of(const wire::PipelinePlan& plan) const;
  bool is_of_an_earlier_job(const Message& message) const;
  GroupMember join_group(const wire::PipelinePlan& plan, std::size_t place, const PipelineRanks& ranks);

  Transport& transport_;
  struct Group {
    std::unique_ptr<GroupExchange> exchange;
    bool draft;
  };
  std::vector<Group> groups_;  // the groups of the models below
  std::unique_ptr<Pipeline> target_;
  std::unique_ptr<StageModel> model_;  // of stage_
  std::unique_ptr<Stage> stage_;       // led by another rank; receives the messages of channel_
  Channel channel_ = kTargetChannel;
  std::int64_t job_ = 0;                                       // see wire::Start
  std::map<std::int32_t, std::unique_ptr<Drafter>> drafters_;  // by their model's number in the plan
};

}  // namespace yamata
