#include "launch/program/job/follower.hpp"

#include <utility>

namespace yamata {

WorkerSetup Follower::setup() {
  WorkerSetup setup;
  setup.fetch.absent = [this] {
    rank_.reset();  // frees its threads and memory before the next job's are made
    rank_ = next_();
    return rank_ ? rank_->absent_models() : std::vector<std::int32_t>{};
  };
  setup.fetch.take_files = [this](std::int32_t model, fetch::ModelShape shape) { rank_->take_files(model, std::move(shape)); };
  setup.fetch.before_hello = [this] { return rank_->heads_to_fetch(); };
  setup.fetch.for_plan = [this](const wire::Start& plan) { return rank_ ? rank_->weights_to_fetch(plan) : std::vector<FetchTask>{}; };
  setup.open = [this] { return rank_ ? rank_->open() : wire::Hello{}; };
  setup.make_stage = [this](const wire::PipelinePlan& plan, std::size_t place, CacheTypes types, const GroupMember& group) {
    return rank_->stage_factory()(plan, place, types, group);
  };
  setup.make_layer = [this](LayerRange layers, const GroupMember& group) { return rank_->layer_factory()(layers, group); };
  setup.measure = [this](const std::atomic<bool>& stop) { return rank_ ? rank_->measure(stop) : wire::Measured{}; };
  setup.mapped_bytes = [this] { return rank_ ? rank_->models().mapped_bytes() : 0; };
  return setup;
}

}  // namespace yamata
