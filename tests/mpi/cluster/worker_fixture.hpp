#pragma once
// A worker whose head is the test.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mpi/cluster/worker.hpp"
#include "mpi/transport/local_transport.hpp"
#include "tests/mpi/simulation/random_network.hpp"

namespace yamata::test {

/// What `look` finds at last; nothing if it finds nothing within a minute, which only a broken worker takes.
template <class Look>
auto sooner_or_later(Look look) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  auto found = look();
  while (!found && std::chrono::steady_clock::now() < end) found = look();
  return found;
}

/// Rank 1 of two, the last stage of the target; the test plays the head.
class WorkerTest : public testing::Test {
 protected:
  WorkerTest() : network_(2), head_(network_, 0), transport_(network_, 1) {
    setup_.host = "host1";
    setup_.open = [] { return wire::Hello{}; };
    setup_.make_stage = [this](const wire::PipelinePlan& plan, std::size_t stage, CacheTypes, const GroupMember&) {
      simulation::TableShape shape;
      shape.stage = static_cast<std::int32_t>(stage), shape.stages = 2;
      shape.cells = plan.cells, shape.sequences = plan.sequences;
      shape.logits = [](std::uint64_t prefix, std::span<float> logits) { table_logits(prefix, 1, logits); };
      return std::make_unique<simulation::TableModel>(shape, unit_);
    };
    worker_.emplace(transport_, setup_);
    worker_->begin();
  }
  static wire::Start plan_over(std::vector<std::int32_t> ranks) {
    wire::Start plan;
    wire::PipelinePlan target;
    for (std::size_t stage = 0; stage < ranks.size(); ++stage)
      target.layers.push_back({static_cast<std::int64_t>(stage), static_cast<std::int64_t>(stage) + 1});
    target.ranks = std::move(ranks);
    target.cells = 8;
    plan.pipelines = {target};
    return plan;
  }
  /// The same, with a draft model on one rank.
  static wire::Start plan_with_drafter(std::vector<std::int32_t> ranks, std::int32_t drafter) {
    wire::Start plan = plan_over(std::move(ranks));
    plan.draft.credit = 4;
    wire::PipelinePlan draft = plan_over({drafter}).pipelines.front();
    draft.model = 1;
    draft.sequences = plan.draft.credit + 1;
    plan.pipelines.push_back(draft);
    return plan;
  }
  void send(Tag tag, wire::Bytes bytes) { head_.send(1, tag, std::move(bytes)); }
  /// Advances until nothing happens any more; returns the worker's last message of this kind.
  std::optional<wire::Bytes> play_until(Tag tag) {
    for (int i = 0; i < 20; ++i) {
      worker_->step();
      unit_.tick();
    }
    std::optional<wire::Bytes> last;
    while (auto message = head_.receive()) {
      if (message->tag == tag) last = std::move(message->bytes);
    }
    return last;
  }
  std::string fault() { return text_of(play_until(Tag::kFailure)); }
  static std::string text_of(const std::optional<wire::Bytes>& failure) { return failure ? wire::decode_failure(*failure).text : "none"; }

  LocalNetwork network_;
  LocalTransport head_, transport_;
  SteppedUnit unit_;
  WorkerSetup setup_;
  std::optional<Worker> worker_;
};

}  // namespace yamata::test
