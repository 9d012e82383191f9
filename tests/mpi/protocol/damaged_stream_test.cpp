// Damaged messages are handled by their receivers: a stage, a leader, the head's end of a draft, and the drafter. Each refuses them with a
// ClusterError, or they have no effect.
#include <gtest/gtest.h>

#include <deque>

#include "mpi/decoding/draft_link.hpp"
#include "mpi/decoding/drafter.hpp"
#include "mpi/transport/local_transport.hpp"
#include "node/error.hpp"
#include "tests/mpi/instant_unit.hpp"
#include "tests/mpi/protocol/damage.hpp"
#include "tests/mpi/protocol/messages.hpp"

namespace yamata::test {
namespace {

using wire::Bytes;
constexpr std::size_t kStreamShare = 10;  // part of all rounds: each of these simulates a whole conversation
constexpr int kMaxStreamSteps = 2000;     // more steps mean that it hangs

simulation::TableShape table_shape(std::int32_t stage, std::int32_t stages, std::int32_t cells = kSampleCells) {
  simulation::TableShape shape;
  shape.stage = stage, shape.stages = stages;
  shape.cells = cells, shape.sequences = kSampleSequences, shape.vocabulary = kSampleVocabulary;
  shape.logits = [](std::uint64_t prefix, std::span<float> logits) {
    for (std::size_t v = 0; v < logits.size(); ++v) logits[v] = static_cast<float>((prefix >> v) % 7);
  };
  return shape;
}

class DamagedStreamTest : public testing::Test {
 protected:
  /// A message of a conversation.
  struct Sent {
    Tag tag;
    Bytes bytes;
  };
  /// Plays rounds with one damaged message each, and one round without, which must end without an error.
  template <class Play>
  void play_rounds(const std::vector<Sent>& whole, Play play) {
    EXPECT_NO_THROW(play(whole));
    std::size_t refused = 0;
    for (std::size_t round = 0; round < damage_rounds() / kStreamShare; ++round) {
      std::vector<Sent> messages = whole;
      Bytes& bytes = messages[random_() % messages.size()].bytes;
      bytes = damage(bytes, messages[random_() % messages.size()].bytes, random_);
      try {
        play(messages);
      } catch (const ClusterError&) {
        ++refused;
      } catch (const std::exception& e) {
        FAIL() << "round " << round << ": " << e.what();
      }
      if (HasFatalFailure()) FAIL() << "round " << round;
    }
    EXPECT_GT(refused, 0u);
  }
  template <class Step>
  static void run(Step step) {
    for (int i = 0; step(); ++i) ASSERT_LT(i, kMaxStreamSteps) << "it does not come to an end";
  }

  std::mt19937_64 random_{4};
};

/// The samples' records, each followed by its run's activations; the second run may be cancelled.
std::vector<Bytes> activations() {
  std::vector<Bytes> all;
  for (const wire::Record& record : sample_records()) {
    const std::vector<float> rows(record.tokens.size() * kSampleWidth, 3.0f), features(record.features_below(1) * kSampleWidth, 2.0f);
    all.push_back(record.has_run() ? wire::encode(wire::Rows{.run = record.run, .values = rows, .features = features}) : Bytes{});
  }
  return all;
}

/// With layers that have windows and states of two texts, and of checkpoints.
simulation::TableShape shape_with_ends(std::int32_t stage, std::int32_t stages) {
  simulation::TableShape shape = table_shape(stage, stages);
  shape.texts = {2, kSampleSequences / 3, kSampleSequences / 3};
  shape.window = 3, shape.window_cells = shape.state_inputs = kSampleCells;
  return shape;
}

TEST_F(DamagedStreamTest, Stage_refusesOrPassesResultsOn) {
  struct Case {
    std::vector<std::vector<int>> ranks;
    bool ends;
  };
  for (const auto& [ranks, ends] : {Case{{{0}, {1}}, false}, Case{{{0}, {1}, {2}}, false}, Case{{{0}, {1}}, true}}) {
    std::vector<Sent> messages;
    const auto records = sample_records();
    for (std::size_t i = 0; i < records.size(); ++i) {
      messages.push_back({Tag::kRecord, wire::encode(records[i])});
      if (records[i].has_run()) messages.push_back({Tag::kActivations, activations()[i]});
    }
    messages.insert(messages.begin() + 2, Sent{Tag::kCancel, wire::encode(wire::Cancel{{2, 1}, CancelRoute::kBackward})});
    play_rounds(messages, [&, stages = static_cast<std::int32_t>(ranks.size()), &ranks = ranks, ends = ends](const auto& sent) {
      LocalNetwork network(3);
      LocalTransport transport(network, 1);
      InstantUnit unit;
      simulation::TableModel model(ends ? shape_with_ends(1, stages) : table_shape(1, stages), unit);
      Stage stage(model, transport, PipelineRanks{kTargetChannel, ranks});
      stage.load();
      for (const Sent& message : sent) {
        if (message.tag == Tag::kRecord) stage.on_record(message.bytes);
        if (message.tag == Tag::kActivations) stage.on_activations(message.bytes);
        if (message.tag == Tag::kCancel) stage.on_cancel(wire::decode_cancel(message.bytes));
        run([&] { return stage.advance(); });
      }
    });
  }
}

TEST_F(DamagedStreamTest, Leader_refusesOrHasRowsOfLogits) {
  std::vector<Sent> messages;
  for (const wire::Record& record : sample_records()) {
    if (!record.has_run()) continue;
    const std::size_t each = record.best > 0 ? static_cast<std::size_t>(record.best) : kSampleVocabulary;
    const std::vector<float> logits(record.logit_rows.size() * each, 0.5f),
        features(record.feature_rows.size() * record.feature_layers.size() * kSampleWidth, 0.25f);
    const std::vector<std::int32_t> tokens(record.best > 0 ? logits.size() : 0, 4);
    messages.push_back({Tag::kLogits, wire::encode(wire::Rows{.run = record.run,
                                                              .values = logits,
                                                              .tokens = tokens,
                                                              .vocabulary = record.best > 0 ? kSampleVocabulary : 0u,
                                                              .features = features})});
  }
  play_rounds(messages, [&](const std::vector<Sent>& sent) {
    LocalNetwork network(2);
    LocalTransport transport(network, 0);
    InstantUnit unit;
    auto model = std::make_unique<simulation::TableModel>(table_shape(0, 2), unit);
    Pipeline pipeline(transport, PipelineRanks{kTargetChannel, {{0}, {1}}}, std::move(model), kSampleCells, kSampleSequences);
    pipeline.stage().load();
    const auto records = sample_records();
    for (const wire::Record& record : records) pipeline.submit(record);
    run([&] { return pipeline.advance(); });
    for (const Sent& message : sent) pipeline.on_message({1, message.tag, message.bytes});
    while (const auto result = pipeline.take_result()) {
      ASSERT_FALSE(result->skipped) << "nobody has cancelled it";
      const wire::Record& record = records[result->run == 3 ? 3 : result->run - 1];
      for (std::size_t row = 0; row < record.logit_rows.size(); ++row)
        ASSERT_EQ(result->row(row, record.logit_rows.size()).size(), std::size_t{kSampleVocabulary});
      for (std::size_t row = 0; row < record.feature_rows.size(); ++row)
        ASSERT_EQ(result->feature_row(row, record.feature_rows.size()).size(), record.feature_layers.size() * kSampleWidth);
    }
  });
}

TEST_F(DamagedStreamTest, DraftLink_refusesOrGrowsATreeOfTokensThatThereAre) {
  std::vector<std::string> words;
  for (int i = 0; i < kSampleVocabulary; ++i) words.push_back("w" + std::to_string(i));
  const auto vocabulary = VocabularyMap::between(words, words);
  wire::Guesses more = sample_guesses();
  more.guesses = {{8, 4, 2, 0.5f}, {9, 8, 3, 0.5f}};
  wire::Guesses last = sample_guesses();
  last.root = 1, last.root_position = 1, last.epoch = 1, last.guesses = {{2, 1, 4, 0.75f}, {3, 2, 9, 0.5f}, {11, 3, 6, 0.5f}};
  const std::vector<Sent> messages{{Tag::kGuesses, encode(sample_guesses())}, {Tag::kGuesses, encode(more)}, {Tag::kGuesses, encode(last)}};
  play_rounds(messages, [&](const std::vector<Sent>& sent) {
    LocalNetwork network(2);
    LocalTransport head(network, 0);
    DraftLink link(head, 0, {.rank = 1}, vocabulary, 0.25);
    TokenTree tree(7, 0);
    std::vector<std::int32_t> text{7};
    link.begin(sample_guesses().request);
    for (const std::int32_t token : {3, 4, 9}) {
      link.guess(tree, text, {.epoch = token == 9 ? 2u : 1u, .most = 8});
      link.learn(tree, token);
      tree.advance(token);
      text.push_back(token);
    }
    for (const Sent& message : sent)
      link.on_guesses(wire::decode_guesses(message.bytes), tree, text, {.epoch = 2, .most = 8, .min_drafts = 8});
    for (const NodeId id : tree.ids()) {
      const TreeNode& node = tree.at(id);
      ASSERT_TRUE(node.token >= 0 && node.token < kSampleVocabulary);
      ASSERT_TRUE(node.path_probability >= 0 && node.path_probability <= 1);
    }
    ASSERT_GE(link.evaluation_s(1), 0);
    link.learn(tree, 8);
  });
}

TEST_F(DamagedStreamTest, Drafter_refusesOrGoesOn) {
  constexpr std::int32_t kCells = 96, kContext = 60;
  const std::vector<Sent> messages{{Tag::kCommit, encode(wire::Commit{1, 1, 0, {7, 3}, 4, 0.25f, false})},
                                   {Tag::kCommit, encode(wire::Commit{1, 2, 2, {4}, 0, 0.0f, true})},
                                   {Tag::kCommit, encode(wire::Commit{1, 3, 3, std::vector<std::int32_t>(20, 9), 0, 0.0f, false})},
                                   {Tag::kCommit, encode(wire::Commit{2, 1, 0, {1, 2, 3}, 8, 0.5f, false})},
                                   {Tag::kCommit, encode(wire::Commit{.request = 1, .position = 23, .ended = true})},
                                   {Tag::kCommit, encode(wire::Commit{3, 1, 0, {5, 6, 7, 8}, 4, 0.25f, false})}};
  play_rounds(messages, [&](const std::vector<Sent>& sent) {
    LocalNetwork network(2);
    LocalTransport head(network, 0), transport(network, 1);
    InstantUnit unit;
    auto model = std::make_unique<simulation::TableModel>(table_shape(0, 1, kCells), unit);
    auto pipeline = std::make_unique<Pipeline>(transport, PipelineRanks{kDraftChannel, {{1}}}, std::move(model), kCells, kSampleSequences);
    pipeline->stage().load();
    constexpr std::int32_t kOwn = kSampleSequences / 2;
    Drafter drafter(transport, std::move(pipeline),
                    Drafting{.options = {.width = 2, .children = 2, .credit = 6}, .context = kContext, .batch = 16},
                    Drafter::Sequences{.texts = {{0, kOwn}, {kOwn, 2 * kOwn}}});
    for (const Sent& message : sent) {
      drafter.on_commit(wire::decode_commit(message.bytes));
      run([&] {
        const bool advanced = drafter.advance();
        auto result = transport.receive();  // from its only stage
        if (result) drafter.pipeline().on_message(std::move(*result));
        return advanced || result;
      });
    }
  });
}

}  // namespace
}  // namespace yamata::test
