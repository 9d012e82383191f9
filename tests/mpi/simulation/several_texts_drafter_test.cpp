// A drafter with several texts at a time: their evaluations share runs, and the guesses of each follow that text alone.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "mpi/decoding/drafter.hpp"
#include "mpi/transport/local_transport.hpp"
#include "node/clock.hpp"
#include "node/error.hpp"
#include "tests/mpi/hand_unit.hpp"

namespace yamata::test {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kVocabulary = 3, kCredit = 8, kOwn = kCredit + 1, kBatch = 20;

std::int32_t favourite(std::uint64_t prefix) { return static_cast<std::int32_t>(prefix % kVocabulary); }

/// The drafter is on rank 1, with `texts` texts in a cache of so many cells; the test plays rank 0.
class Drafted {
 public:
  explicit Drafted(std::int32_t texts, std::int32_t cells = 400) : clock_(now_), network_(2), head_(network_, 0), transport_(network_, 1) {
    simulation::TableShape shape;
    shape.cells = cells, shape.sequences = texts * kOwn + 2, shape.vocabulary = kVocabulary;
    shape.logits = [](std::uint64_t prefix, std::span<float> logits) {
      for (std::int32_t token = 0; token < kVocabulary; ++token)
        logits[static_cast<std::size_t>(token)] = std::log(token == favourite(prefix) ? 0.8f : 0.1f);
    };
    auto pipeline = std::make_unique<Pipeline>(transport_, PipelineRanks{kDraftChannel, {{1}}},
                                               std::make_unique<simulation::TableModel>(shape, unit_), cells, shape.sequences);
    pipeline->stage().load();
    Drafter::Sequences sequences{.texts = {}, .kept = {texts * kOwn, shape.sequences}};
    for (std::int32_t text = 0; text < texts; ++text) sequences.texts.push_back({text * kOwn, (text + 1) * kOwn});
    const Drafting drafting{.options = {.width = 2, .children = 2, .credit = kCredit}, .context = 100, .batch = kBatch};
    drafter_ = std::make_unique<Drafter>(transport_, std::move(pipeline), drafting, sequences);
    compute();
    unit_.widths.clear();
  }

  /// A text begins or grows; `least`: as in wire::Commit: 1: only the root is expanded.
  void commit(std::uint64_t request, const Ids& tokens, float least = 1, std::int32_t min_drafts = 0) {
    Text& text = texts_[request];
    drafter_->on_commit({request, ++text.epoch, static_cast<std::int32_t>(text.tokens.size()), tokens, min_drafts, least});
    text.tokens.insert(text.tokens.end(), tokens.begin(), tokens.end());
    text.complete = false;
  }
  void end(std::uint64_t request) {
    drafter_->on_commit({.request = request, .position = static_cast<std::int32_t>(texts_[request].tokens.size()), .ended = true});
  }
  /// What can be done without the end of a run.
  void act() {
    for (bool any = true; any;) {
      any = drafter_->advance();
      if (auto message = transport_.receive()) {
        drafter_->pipeline().on_message(std::move(*message));
        any = true;
      }
    }
    read();
  }
  void compute() {
    for (act(); unit_.finish();) act();
  }
  /// Rows of the runs since the last call.
  std::vector<std::size_t> rows() { return std::exchange(unit_.widths, {}); }
  bool complete(std::uint64_t request) { return texts_[request].complete; }
  int guesses(std::uint64_t request) { return texts_[request].guesses; }
  std::int32_t free_cells() { return drafter_->pipeline().cells().free_cells(); }

 private:
  struct Text {
    Ids tokens;
    std::uint64_t epoch = 0;
    std::map<std::uint32_t, Ids> paths;  // of the drafter's nodes
    int guesses = 0;
    bool complete = false;
  };
  /// Each guess must be what a drafter that has seen only its text, and the guesses before it, finds as probable.
  void read() {
    while (auto message = head_.receive()) {
      const wire::Guesses told = wire::decode_guesses(message->bytes);
      Text& text = texts_.at(told.request);
      text.complete |= told.complete && told.epoch == text.epoch;
      text.paths[told.root] = Ids(text.tokens.begin(), text.tokens.begin() + told.root_position + 1);
      for (const wire::Guess& guess : told.guesses) {
        Ids path = text.paths.at(guess.parent);
        EXPECT_EQ(guess.probability > 0.5f, guess.token == favourite(simulation::prefix_hash(path)));
        path.push_back(guess.token);
        text.paths[guess.id] = std::move(path);
        ++text.guesses;
      }
    }
  }

  std::int64_t now_ = 0;
  Clock::Override clock_;
  LocalNetwork network_;
  LocalTransport head_, transport_;
  HandUnit unit_{now_};
  std::unique_ptr<Drafter> drafter_;
  std::map<std::uint64_t, Text> texts_;
};

using Rows = std::vector<std::size_t>;

TEST(SeveralTextsOnADrafter, EvaluationsOfTexts_shareARun) {
  Drafted drafted(3);
  drafted.commit(1, {0, 1});
  drafted.commit(2, {2, 2, 1});
  drafted.compute();
  EXPECT_EQ(drafted.rows(), Rows{5});
  drafted.commit(3, {1});
  drafted.act();
  drafted.commit(1, {0});
  drafted.commit(2, {1, 1});
  drafted.compute();
  EXPECT_EQ(drafted.rows(), (Rows{1, 3})) << "those that come during a run go together in the next";
  for (const std::uint64_t request : {1, 2, 3}) EXPECT_GT(drafted.guesses(request), 0) << request;
}

TEST(SeveralTextsOnADrafter, WidthOfAnEvaluation_isThatOfAllTexts) {
  Drafted drafted(2);
  drafted.commit(1, {0, 1}, 0);
  drafted.commit(2, {2, 2}, 0);
  drafted.compute();
  const Rows rows = drafted.rows();
  ASSERT_GT(rows.size(), 2u);
  EXPECT_EQ(rows[0], 4u) << "the texts";
  for (std::size_t run = 1; run < rows.size(); ++run) EXPECT_LE(rows[run], 2u) << run;
  EXPECT_GT(drafted.guesses(1), 4);
  EXPECT_GT(drafted.guesses(2), 4);
}

TEST(SeveralTextsOnADrafter, LongPrompt_leavesOtherTextsTheirRuns) {
  Drafted drafted(2);
  drafted.commit(1, Ids(70, 1));
  drafted.commit(2, {0});
  drafted.compute();
  EXPECT_EQ(drafted.rows(), (Rows{20, 20, 20, 11})) << "no run has more rows than a part of a prompt";
}

TEST(SeveralTextsOnADrafter, EndedText_leavesItsPlace_andItsBeginning) {
  Drafted drafted(2);
  drafted.commit(1, Ids(12, 1));
  drafted.commit(2, {0});
  drafted.compute();
  EXPECT_THROW(drafted.commit(3, {0}), ClusterError) << "more texts than there are places";
  drafted.end(1);
  (void)drafted.rows();
  drafted.commit(4, Ids(12, 1));
  drafted.compute();
  EXPECT_EQ(drafted.rows(), Rows{1}) << "all but the last token is in the cache";
  drafted.end(2);
  drafted.end(4);
  EXPECT_THROW(drafted.end(4), ClusterError);
}

TEST(SeveralTextsOnADrafter, WithoutCells_aTextIsWithoutGuesses_untilOthersEnd) {
  Drafted drafted(2, 24);
  drafted.commit(1, Ids(14, 1), 0);
  drafted.compute();
  drafted.commit(2, Ids(14, 2), 0, 4);
  drafted.compute();
  EXPECT_TRUE(drafted.complete(2)) << "the head must not wait for it";
  EXPECT_EQ(drafted.guesses(2), 0);
  drafted.end(1);
  drafted.commit(2, {0}, 0, 4);
  drafted.compute();
  EXPECT_TRUE(drafted.complete(2));
  EXPECT_GE(drafted.guesses(2), 4);
}

}  // namespace
}  // namespace yamata::test
