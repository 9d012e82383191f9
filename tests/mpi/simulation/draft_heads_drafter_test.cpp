// Heads behind whose text many guesses are under way: they continue their guesses, and compute the text again when it must be.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "mpi/decoding/drafter.hpp"
#include "mpi/transport/local_transport.hpp"
#include "src/simulation/draft_heads_table.hpp"

namespace yamata {
namespace {

constexpr std::int32_t kCells = 256, kSequences = 49, kVocabulary = 8;
using Tokens = std::vector<std::int32_t>;

/// Computes at once, and records how many rows each run has.
class RecordingUnit final : public simulation::TableUnit {
 public:
  void begin(const simulation::TableShape&, std::size_t rows, const std::atomic<bool>*, std::function<void(bool)> done) override {
    if (rows > 0) rows_.push_back(rows);
    done(true);
  }
  bool finished() const override { return true; }
  bool wait_for(std::chrono::microseconds) override { return true; }
  std::uint64_t progress() const override { return rows_.size(); }
  double busy_seconds() const override { return 0; }
  /// Of the runs since the last call.
  std::vector<std::size_t> take_rows() { return std::exchange(rows_, {}); }

 private:
  std::vector<std::size_t> rows_;
};

/// The token after a text: by far the most probable one by the logits.
std::int32_t next_token(std::uint64_t prefix) { return static_cast<std::int32_t>(prefix % kVocabulary); }

/// Heads on rank 1 that are always right; the test plays rank 0. The table throws if the heads see wrong features, or guesses in the place
/// of text.
class DraftHeadsDrafterTest : public testing::Test {
 protected:
  DraftHeadsDrafterTest() : network_(2), head_(network_, 0), transport_(network_, 1) {
    simulation::TableShape shape;
    shape.cells = kCells, shape.sequences = kSequences, shape.vocabulary = kVocabulary;
    shape.logits = [](std::uint64_t prefix, std::span<float> logits) { logits[static_cast<std::size_t>(next_token(prefix))] = 20; };
    auto pipeline = std::make_unique<Pipeline>(transport_, PipelineRanks{kDraftChannel, {{1}}},
                                               std::make_unique<simulation::DraftHeadsTable>(shape, Tokens{kOutputFeatures}, unit_), kCells,
                                               kSequences);
    pipeline->stage().load();
    drafter_ = std::make_unique<Drafter>(transport_, std::move(pipeline),
                                         Drafting{.options = {.width = 1, .children = 1, .credit = 4}, .context = kCells},
                                         Drafter::Sequences{.texts = {{0, kSequences}}});
  }
  void begin(const Tokens& prompt) { tell(prompt, 0); }
  /// The token that the heads should guess.
  std::int32_t right() const { return next_token(simulation::prefix_hash(text_)); }
  /// `min_drafts`: guesses for which the head waits.
  void commit(std::int32_t token, std::int32_t min_drafts = 0) { tell({token}, min_drafts); }
  /// The greatest number of rows of a run since the last call.
  std::size_t widest() {
    const std::vector<std::size_t> rows = unit_.take_rows();
    return rows.empty() ? 0 : std::ranges::max(rows);
  }
  /// Length of the chain of guesses below the text that are the text's next tokens.
  int right_guesses() const {
    Tokens text = text_;
    int right = 0;
    for (auto at = guesses_.find({root_, next_token(simulation::prefix_hash(text))}); at != guesses_.end(); ++right) {
      text.push_back(at->first.second);
      at = guesses_.find({at->second, next_token(simulation::prefix_hash(text))});
    }
    return right;
  }

 private:
  void tell(const Tokens& tokens, std::int32_t min_drafts) {
    wire::Commit commit{.request = 1, .epoch = ++epoch_, .position = static_cast<std::int32_t>(text_.size()), .tokens = tokens};
    commit.min_drafts = min_drafts;
    for (const std::int32_t token : tokens) {
      if (!text_.empty()) {
        const auto last = static_cast<std::int32_t>(text_.size()) - 1;
        const std::vector<float> features =
            simulation::features_of(simulation::token_hash(text_.back(), last), simulation::prefix_hash(text_), kOutputFeatures);
        commit.features.insert(commit.features.end(), features.begin(), features.end());
      }
      text_.push_back(token);
    }
    drafter_->on_commit(commit);
    while (step()) {
    }
    while (auto message = head_.receive()) {
      const wire::Guesses told = wire::decode_guesses(message->bytes);
      root_ = told.root;
      for (const wire::Guess& guess : told.guesses) guesses_[{guess.parent, guess.token}] = guess.id;
    }
  }
  bool step() {
    const bool advanced = drafter_->advance();
    auto message = transport_.receive();
    if (message) drafter_->pipeline().on_message(std::move(*message));
    return advanced || message;
  }

  LocalNetwork network_;
  LocalTransport head_, transport_;
  RecordingUnit unit_;
  std::unique_ptr<Drafter> drafter_;
  std::uint64_t epoch_ = 0;
  Tokens text_;
  std::uint32_t root_ = 0;
  std::map<std::pair<std::uint32_t, std::int32_t>, std::uint32_t> guesses_;  // parent and token -> id
};

TEST_F(DraftHeadsDrafterTest, AcceptedGuesses_areContinued_andAfterFifteenTheTextIsComputedAgainInOneRun) {
  begin({1, 2, 3});
  EXPECT_EQ(widest(), 2u) << "heads cannot read the first token";
  for (int round = 0; round < 3; ++round) {
    for (int accepted = 1; accepted <= 15; ++accepted) {
      commit(right());
      EXPECT_EQ(widest(), 1u) << accepted;
      EXPECT_EQ(right_guesses(), 4) << accepted;
    }
    commit(right());
    EXPECT_EQ(widest(), 16u) << "the fifteen and the root";
    EXPECT_EQ(right_guesses(), 4);
  }
}

TEST_F(DraftHeadsDrafterTest, RejectedGuesses_leadToTheTextBeingComputedAgain) {
  begin({1, 2, 3});
  for (int accepted = 0; accepted < 6; ++accepted) commit(right());
  widest();
  commit((right() + 1) % kVocabulary);
  EXPECT_EQ(widest(), 7u) << "the six and the root";
  EXPECT_EQ(right_guesses(), 4);
}

TEST_F(DraftHeadsDrafterTest, GuessesForWhichTheHeadWaits_beginAtTheTextComputedAgain) {
  begin({1, 2, 3});
  for (int accepted = 0; accepted < 6; ++accepted) commit(right());
  widest();
  commit(right(), 2);
  EXPECT_EQ(widest(), 7u);
  commit(right(), 2);
  EXPECT_EQ(widest(), 1u) << "the root alone";
  EXPECT_GE(right_guesses(), 2);
}

}  // namespace
}  // namespace yamata
