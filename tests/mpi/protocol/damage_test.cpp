// Messages with random damage, from fixed seeds: each is either refused with a ClusterError, or has possible values.
#include "tests/mpi/protocol/damage.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "mpi/protocol/validate.hpp"
#include "node/error.hpp"
#include "tests/mpi/protocol/allocations.hpp"
#include "tests/mpi/protocol/messages.hpp"

namespace yamata::test {
namespace {

TEST(WireDamage, Samples_areTaken) {
  for (const MessageKind& kind : message_kinds()) {
    // The activations and logits are those of one run; the records are those of several runs.
    for (const wire::Bytes& sample : kind.samples) EXPECT_NO_THROW(kind.take(sample)) << kind.name;
  }
}

TEST(WireDamage, DamagedMessage_isRefusedOrCanBe_andAllocatesNoMoreThanItAllows) {
  constexpr std::size_t kErrorText = 1024, kTimes = 4;  // decoded data may be several times as large as the message
  std::mt19937_64 random(20);
  std::map<std::string, std::size_t> refused, taken;
  const auto& kinds = message_kinds();
  for (std::size_t round = 0; round < damage_rounds(); ++round) {
    const MessageKind& kind = kinds[random() % kinds.size()];
    const auto& samples = kind.samples;
    const wire::Bytes& other = kinds[random() % kinds.size()].samples.front();
    const wire::Bytes bytes = damage(samples[random() % samples.size()], random() % 2 ? other : samples.front(), random);
    const AllocationWatch watch;
    try {
      kind.take(bytes);
      ++taken[kind.name];
    } catch (const ClusterError&) {
      ++refused[kind.name];
    } catch (const std::exception& e) {
      FAIL() << kind.name << " in round " << round << ": " << e.what();
    }
    ASSERT_LE(watch.largest(), kTimes * bytes.size() + kErrorText) << kind.name << " in round " << round;
  }
  for (const MessageKind& kind : kinds) EXPECT_GT(refused[kind.name], 0u) << kind.name;
  for (const auto& [name, count] : refused) RecordProperty(name + "_refused", static_cast<int>(count));
  for (const auto& [name, count] : taken) RecordProperty(name + "_taken", static_cast<int>(count));
}

TEST(WireDamage, SumsOfLogits_comeWithEachRowIfRequested_andNotOtherwise) {
  const std::vector<float> values{3, 2, 5, 1}, sums{4, 6};
  const std::vector<std::int32_t> tokens{7, 3, 2, 9};
  wire::ResultLimits limits{.run = 2, .logit_rows = 2, .best = 2, .vocabulary = 32};
  const auto taken = [&](std::size_t count, bool part) {
    const wire::Rows rows{.run = 2, .values = values, .tokens = tokens, .vocabulary = 32, .sums = std::span(sums).first(count)};
    part ? validate_part(rows, limits, false, 1) : validate(rows, limits, 1);
  };
  for (const bool part : {false, true}) {
    limits.sums = false;
    EXPECT_NO_THROW(taken(0, part));
    EXPECT_THROW(taken(2, part), ClusterError);
    limits.sums = true;
    EXPECT_NO_THROW(taken(2, part));
    EXPECT_THROW(taken(0, part), ClusterError);
    EXPECT_THROW(taken(1, part), ClusterError);
  }
}

TEST(WireDamage, ShapeOfGuesses_thatIsNoTree_isRefused) {
  const auto taken = [](std::vector<StaticTree::Node> nodes) {
    wire::Start plan = sample_plan();
    plan.draft.shape.nodes = std::move(nodes);
    validate(plan, kSampleRanks, 0);
  };
  EXPECT_NO_THROW(taken({{}, {0, 0, 0}, {0, 0, 1}, {1, 1, 0}}));
  EXPECT_THROW(taken({}), ClusterError) << "no root";
  EXPECT_THROW(taken({{0, 0, 0}}), ClusterError) << "a root below another node";
  EXPECT_THROW(taken({{}, {1, 0, 0}}), ClusterError) << "below itself";
  EXPECT_THROW(taken({{}, {0, 1, 0}}), ClusterError) << "a level too deep";
  EXPECT_THROW(taken({{}, {0, 0, -1}}), ClusterError) << "no choice has this rank";
}

TEST(WireDamage, TextsWithoutSequencesOfTheirOwn_areRefused) {
  const auto taken = [](std::int32_t sequences, std::int32_t slots, std::int32_t each, std::int32_t checkpoints) {
    wire::Start plan = sample_plan();
    wire::PipelinePlan& target = plan.pipelines.front();
    target.sequences = sequences, target.slots = slots, target.slot_sequences = each, target.checkpoints = checkpoints;
    validate(plan, kSampleRanks, 0);
  };
  EXPECT_NO_THROW(taken(9, 2, 3, 3));
  EXPECT_NO_THROW(taken(9, 2, 3, 0));
  EXPECT_THROW(taken(9, 2, 3, 4), ClusterError) << "a checkpoint in a sequence of a text";
  EXPECT_THROW(taken(9, 2, 3, -1), ClusterError);
  EXPECT_THROW(taken(9, 2, 5, 0), ClusterError);
  EXPECT_THROW(taken(9, 10, 1, 0), ClusterError);
  EXPECT_THROW(taken(9, 0, 1, 0), ClusterError);
  EXPECT_THROW(taken(9, 2, 0, 0), ClusterError);
}

TEST(WireDamage, WhetherDraftersMayBeLost_andWhetherTheJobServes_onlyTheHeadSays) {
  for (const wire::Heartbeat& heartbeat : {wire::Heartbeat{.can_lose_drafters = true}, wire::Heartbeat{.serving = true}}) {
    EXPECT_NO_THROW(validate(heartbeat, 0));
    EXPECT_THROW(validate(heartbeat, 1), ClusterError);
  }
}

}  // namespace
}  // namespace yamata::test
