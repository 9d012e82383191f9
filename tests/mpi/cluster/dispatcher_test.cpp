// The end of a rank's models at the end of the job.
#include "mpi/cluster/dispatcher.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "mpi/transport/local_transport.hpp"
#include "tests/mpi/instant_unit.hpp"
#include "tests/mpi/silent_transport.hpp"

namespace yamata::test {
namespace {

using Events = std::vector<std::string>;

class NotedExchange final : public GroupExchange {
 public:
  explicit NotedExchange(Events& events) : events_(events) {}
  int members() const override { return 2; }
  int own() const override { return 0; }
  bool all_gather(std::span<std::byte>, std::span<const std::size_t>, bool) override { return true; }
  void abandon() override { events_.push_back("group abandoned"); }

 private:
  Events& events_;
};

/// Rank 0 of two.
class NotedTransport final : public SilentTransport {
 public:
  explicit NotedTransport(Events& events) : SilentTransport(2), events_(events) {}
  std::unique_ptr<GroupExchange> join_group(std::span<const int>, int) override { return std::make_unique<NotedExchange>(events_); }

 private:
  Events& events_;
};

/// The target on two ranks in a group, and a draft on the first of them.
wire::Start plan_of_group_with_draft() {
  wire::Start plan;
  plan.draft.credit = 4;
  wire::PipelinePlan target{.model = 0, .ranks = {0, 1}, .layers = {{0, 1}, {0, 1}}, .cells = 8, .shares = {0.5, 0.5}};
  wire::PipelinePlan draft{.model = 1, .ranks = {0}, .layers = {{0, 1}}, .cells = 12, .sequences = plan.draft.credit + 1};
  draft.slot_sequences = draft.sequences;
  plan.pipelines = {target, draft};
  return plan;
}

// They share a unit: the draft would wait for it, and it for a rank that has left.
TEST(DispatcherTest, Groups_areAbandonedBeforeAnyModelGoes) {
  Events events;
  NotedTransport transport(events);
  InstantUnit unit;
  const StageFactory make_stage = [&](const wire::PipelinePlan& plan, std::size_t, CacheTypes, const GroupMember&) {
    const std::shared_ptr<void> last(nullptr, [&events, model = plan.model](void*) { events.push_back(model == 0 ? "target" : "draft"); });
    simulation::TableShape shape;
    shape.cells = plan.cells, shape.sequences = plan.sequences;
    shape.members = plan.model == 0 ? 2 : 1;
    shape.logits = [last](std::uint64_t, std::span<float>) {};
    return std::make_unique<simulation::TableModel>(shape, unit);
  };
  {
    Dispatcher dispatcher(transport);
    dispatcher.build(plan_of_group_with_draft(), make_stage);
    ASSERT_TRUE(dispatcher.drafts());
    EXPECT_EQ(events, Events{});
  }
  EXPECT_EQ(events, (Events{"group abandoned", "draft", "target"}));
}

/// Cancellations that a stage of that pipeline, on rank 1, has taken, when one of job 3 and one of job 4 have come in job 4.
std::size_t cancelled_in_job_4(std::int32_t model, Tag tag) {
  LocalNetwork network(2);
  LocalTransport transport(network, 1);
  InstantUnit unit;
  Dispatcher dispatcher(transport);
  wire::Start plan;
  plan.job = 4, plan.trace = true;
  plan.pipelines = {{.model = 0, .ranks = {0}, .layers = {{0, 2}}, .cells = 8}};
  wire::PipelinePlan pipeline{.model = model, .ranks = {0, 1}, .layers = {{0, 1}, {1, 2}}, .cells = 8};
  model == 0 ? plan.pipelines.front() = pipeline : plan.pipelines.emplace_back(pipeline);
  dispatcher.build(plan, [&](const wire::PipelinePlan& its, std::size_t place, CacheTypes, const GroupMember&) {
    simulation::TableShape shape;
    shape.stage = static_cast<std::int32_t>(place), shape.stages = 2;
    shape.cells = its.cells, shape.sequences = its.sequences;
    return std::make_unique<simulation::TableModel>(shape, unit);
  });
  for (const std::int64_t job : {3, 4}) {
    Message message{0, tag, wire::encode(wire::Cancel{{5}, CancelRoute::kDirect, job})};
    EXPECT_TRUE(dispatcher.dispatch(message));
  }
  wire::Report report;
  dispatcher.describe(report, 0);
  return static_cast<std::size_t>(std::ranges::count(report.events, TraceEvent::Kind::kCancel, &TraceEvent::kind));
}

TEST(DispatcherTest, CancellationsOfAnEarlierJob_areIgnored_alsoThoseOfADraft) {
  EXPECT_EQ(cancelled_in_job_4(0, Tag::kCancel), 1u);
  EXPECT_EQ(cancelled_in_job_4(1, Tag::kDraftCancel), 1u);
}

}  // namespace
}  // namespace yamata::test
