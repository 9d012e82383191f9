#pragma once
// The parts of the models that lie on one rank, and which of them takes a message.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "mpi/decoding/drafter.hpp"
#include "mpi/pipeline/pipeline.hpp"

namespace yamata {

/// Makes what the rank at `place` of a plan holds, on this rank, which is that; `group`: beside whom it holds the layers.
using StageFactory = std::function<std::unique_ptr<StageModel>(const wire::PipelinePlan& plan, std::size_t place, CacheTypes cache_types,
                                                               const GroupMember& group)>;

/// What every rank does with the messages of the models, in the program and in simulations alike:
///
///   tag                         taken by
///   record, activations, cancel the stage on this rank that another rank leads
///   logits                      the pipeline that this rank leads: the target's, or a draft's
///   commit                      the drafter that it names
///   guesses                     whoever listens (the engine)
///
/// All other tags are about the job rather than the models: Head and Worker take those themselves.
class Dispatcher {
 public:
  explicit Dispatcher(Transport& transport) : transport_(transport) {}
  /// Whoever waits for the others of a group gives up.
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// Builds this rank's part of a plan, whose ranks lead a pipeline where they are its first. A rank may hold one stage that another
  /// leads, or lead the target, drafts or both. Throws ClusterError where the plan cannot be, and what the factory throws.
  void build(const wire::Start& plan, const StageFactory& make_stage);
  /// The plan has no place for this rank, or there is none yet.
  bool empty() const { return !stage(); }
  /// Begins to bring the weights into memory.
  void load();
  bool loaded() const;

  /// Hands a message to whoever takes it; false: nobody here does. Throws ClusterError where it is damaged.
  bool dispatch(Message& message);
  /// Lets every part go on; true if anything happened.
  bool advance();

  /// The target's pipeline, on the head.
  Pipeline* target() { return target_.get(); }
  const Pipeline* target() const { return target_.get(); }
  /// Whether this rank drafts.
  bool drafts() const { return !drafters_.empty(); }
  /// Whether this rank's only part is of a draft.
  bool drafts_only() const { return drafts() ? !target_ && !stage_ : stage_ && channel_.record == kDraftChannel.record; }

  /// Told of a drafter's guesses.
  std::function<void(int rank, const wire::Guesses& guesses)> on_guesses;

  /// What a heartbeat says of this rank.
  wire::Heartbeat heartbeat() const { return stage() ? stage()->heartbeat() : wire::Heartbeat{}; }
  /// Whether this rank's threads compute.
  bool computing() const { return stage() && stage()->activity() == wire::Activity::kComputing; }
  /// Whether they do so together with other ranks.
  bool computing_in_group() const { return stage() && stage()->computing() && stage()->members() > 1; }
  /// Fills in what a report says of the parts; `clock_offset_us`: that the head's clock is ahead by.
  void describe(wire::Report& report, std::int64_t clock_offset_us) const;

 private:
  /// The stage that speaks for this rank.
  Stage* stage() const;
  bool to_stage(Message& message);
  bool to_drafter(Message& message);
  PipelineRanks ranks_of(const wire::PipelinePlan& plan) const;
  GroupMember join_group(const wire::PipelinePlan& plan, std::size_t place, const PipelineRanks& ranks);

  Transport& transport_;
  struct Group {
    std::unique_ptr<GroupExchange> exchange;
    bool draft;
  };
  std::vector<Group> groups_;  // that the models below meet in
  std::unique_ptr<Pipeline> target_;
  std::unique_ptr<StageModel> model_;  // of stage_
  std::unique_ptr<Stage> stage_;       // that another rank leads, with the messages of this channel
  Channel channel_ = kTargetChannel;
  std::map<std::int32_t, std::unique_ptr<Drafter>> drafters_;  // by their model's number in the plan
};

}  // namespace yamata
