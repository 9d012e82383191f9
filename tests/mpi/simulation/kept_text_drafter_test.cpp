// A drafter that keeps texts: what is not computed again, and that its guesses are those of a drafter that computes everything.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "mpi/decoding/drafter.hpp"
#include "mpi/transport/local_transport.hpp"
#include "src/simulation/table_model.hpp"
#include "tests/mpi/instant_unit.hpp"

namespace yamata {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kVocabulary = 3, kCredit = 8, kContext = 80, kBatch = 16;

std::int32_t favourite(std::uint64_t prefix) { return static_cast<std::int32_t>(prefix % kVocabulary); }

/// A drafter on rank 1 whose first choice depends on all tokens before; the test plays rank 0.
class KeptTextDrafterTest : public testing::Test {
 protected:
  explicit KeptTextDrafterTest(std::int32_t kept = 3) : network_(2), head_(network_, 0), transport_(network_, 1) {
    constexpr std::int32_t kCells = kContext + kCredit, kOwn = kCredit + 1;
    simulation::TableShape shape;
    shape.cells = kCells, shape.sequences = kOwn + kept, shape.vocabulary = kVocabulary;
    shape.logits = [](std::uint64_t prefix, std::span<float> logits) {
      for (std::int32_t token = 0; token < kVocabulary; ++token)
        logits[static_cast<std::size_t>(token)] = std::log(token == favourite(prefix) ? 0.8f : 0.1f);
    };
    auto pipeline = std::make_unique<Pipeline>(transport_, PipelineRanks{kDraftChannel, {{1}}},
                                               std::make_unique<simulation::TableModel>(shape, unit_), kCells, kOwn + kept);
    pipeline->stage().load();
    const DraftOptions options{.width = 1, .children = 3, .credit = kCredit};
    drafter_ =
        std::make_unique<Drafter>(transport_, std::move(pipeline), Drafting{.options = options, .context = kContext, .batch = kBatch},
                                  Drafter::Sequences{.texts = {{0, kOwn}}, .kept = {kOwn, kOwn + kept}});
    compute();  // loads
  }

  void begin_text() {
    if (!text_.empty()) drafter_->on_commit({.request = request_, .position = static_cast<std::int32_t>(text_.size()), .ended = true});
    ++request_;
    epoch_ = 0;
    text_.clear();
    paths_.clear();
  }
  void commit(const Ids& tokens, float least = 0) {
    drafter_->on_commit({request_, ++epoch_, static_cast<std::int32_t>(text_.size()), tokens, 0, least});
    text_.insert(text_.end(), tokens.begin(), tokens.end());
  }
  bool step() {
    const bool advanced = drafter_->advance();
    auto message = transport_.receive();  // the results of its only stage
    if (message) drafter_->pipeline().on_message(std::move(*message));
    read_guesses();
    return advanced || message;
  }
  void compute() {
    while (step()) {
    }
  }
  /// Evaluations for a text of which only the root is expanded.
  std::uint64_t evaluations_for(const Ids& text) {
    const std::uint64_t before = unit_.progress();
    begin_text();
    commit(text, 1);
    compute();
    return unit_.progress() - before;
  }

  Ids text_;
  std::size_t checked_ = 0;

 private:
  /// Each guess must be what a drafter that has seen the text and the guesses before it finds as probable.
  void read_guesses() {
    while (auto message = head_.receive()) {
      const wire::Guesses told = wire::decode_guesses(message->bytes);
      if (told.request != request_) continue;
      paths_[told.root] = Ids(text_.begin(), text_.begin() + told.root_position + 1);
      for (const wire::Guess& guess : told.guesses) {
        const auto parent = paths_.find(guess.parent);
        if (parent == paths_.end()) continue;
        ASSERT_EQ(guess.probability > 0.5f, guess.token == favourite(simulation::prefix_hash(parent->second)));
        ++checked_;
        Ids path = parent->second;
        path.push_back(guess.token);
        paths_[guess.id] = std::move(path);
      }
    }
  }

  LocalNetwork network_;
  LocalTransport head_, transport_;
  test::InstantUnit unit_;
  std::unique_ptr<Drafter> drafter_;
  std::uint64_t request_ = 1, epoch_ = 0;
  std::map<std::uint32_t, Ids> paths_;  // of the drafter's nodes
};

Ids numbers(std::size_t count, std::int32_t last = 0) {
  Ids ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>(i * i % 5 % kVocabulary));
  ids.push_back(last);
  return ids;
}

TEST_F(KeptTextDrafterTest, CommonBeginning_isNotComputedAgain) {
  const std::uint64_t all = evaluations_for(numbers(64));
  EXPECT_EQ(all, 5u) << "four chunks, and the root";
  EXPECT_EQ(evaluations_for(numbers(64, 1)), 1u);
  EXPECT_EQ(evaluations_for(numbers(40, 1)), 1u);
  EXPECT_EQ(evaluations_for(Ids(65, 2)), all) << "another text";
}

TEST_F(KeptTextDrafterTest, TextsBeforeTheLast_areKeptWhileThereAreCells) {
  (void)evaluations_for(numbers(30));
  (void)evaluations_for(Ids(30, 2));
  EXPECT_EQ(evaluations_for(numbers(30, 1)), 1u);
  EXPECT_EQ(evaluations_for(Ids(31, 2)), 1u);
  EXPECT_EQ(evaluations_for(Ids(70, 1)), 5u);
  EXPECT_GT(evaluations_for(numbers(30, 2)), 1u) << "its cells were needed";
}

class ForgetfulDrafterTest : public KeptTextDrafterTest {
 protected:
  ForgetfulDrafterTest() : KeptTextDrafterTest(0) {}
};

TEST_F(ForgetfulDrafterTest, WithoutSequencesForTexts_everythingIsComputedAgain) {
  EXPECT_EQ(evaluations_for(numbers(64)), 5u);
  EXPECT_EQ(evaluations_for(numbers(64, 1)), 5u);
}

TEST_F(KeptTextDrafterTest, GuessesAreThoseOfADrafterThatComputesEverything) {
  std::mt19937 random(7);
  const auto draw = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  Ids last{0};
  for (int text = 0; text < 300; ++text) {
    Ids prompt(last.begin(), last.begin() + draw(static_cast<int>(last.size()) - 1));
    if (draw(4) == 0) prompt.clear();
    const std::size_t length = std::min<std::size_t>(prompt.size() + 1 + static_cast<std::size_t>(draw(20)), 60);
    while (prompt.size() < length) prompt.push_back(draw(kVocabulary - 1));
    begin_text();
    commit(prompt);
    for (int commits = draw(6); commits > 0 && text_.size() + 4 < kContext; --commits) {
      for (int steps = draw(8); steps > 0; --steps) step();
      Ids tokens;
      for (int count = 1 + draw(3); count > 0; --count) {
        Ids before = text_;
        before.insert(before.end(), tokens.begin(), tokens.end());
        tokens.push_back(draw(3) > 0 ? favourite(simulation::prefix_hash(before)) : draw(kVocabulary - 1));
      }
      commit(tokens);
    }
    if (draw(2) == 0) compute();
    if (draw(2) > 0 || last.size() < 2) last = text_;
    ASSERT_FALSE(HasFatalFailure()) << "text " << text;
  }
  EXPECT_GT(checked_, 2000u);
}

}  // namespace
}  // namespace yamata
