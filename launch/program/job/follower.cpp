#include "launch/program/job/follower.hpp"

namespace yamata {

wire::Hello Follower::open() {
  rank_.reset();  // frees its threads and memory before the next job's are made
  rank_ = next_();
  return rank_ ? rank_->open() : wire::Hello{};
}

WorkerSetup Follower::setup() {
  WorkerSetup setup;
  setup.open = [this] { return open(); };
  setup.make_stage = [this](const wire::PipelinePlan& plan, std::size_t place, CacheTypes types, const GroupMember& group) {
    return rank_->stage_factory()(plan, place, types, group);
  };
  setup.make_layer = [this](LayerRange layers, const GroupMember& group) { return rank_->layer_factory()(layers, group); };
  setup.measure = [this](const std::atomic<bool>& stop) { return rank_ ? rank_->measure(stop) : wire::Measured{}; };
  setup.mapped_bytes = [this] { return rank_ ? rank_->models().mapped_bytes() : 0; };
  return setup;
}

}  // namespace yamata
