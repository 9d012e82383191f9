// The decoder's decisions with a pipeline of one stage: what it sends and when, what it waits for, what it cancels, and what it tells
// sources.
#include "mpi/decoding/decoder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "mpi/transport/local_transport.hpp"
#include "src/simulation/table_model.hpp"

namespace yamata {
namespace {

using simulation::TableModel;
using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kVocabulary = 50;
constexpr std::int64_t kMs = 1'000'000;

/// A run takes 10 ms, and ends when the test says so.
class HandUnit final : public simulation::TableUnit {
 public:
  explicit HandUnit(std::int64_t& now) : now_(now) {}
  void begin(const simulation::TableShape&, std::size_t rows, const std::atomic<bool>*, std::function<void(bool)> done) override {
    widths.push_back(rows);
    done_ = std::move(done);
  }
  /// False if nothing is being computed.
  bool finish() {
    if (!done_) return false;
    now_ += 10 * kMs;
    ++progress_;
    std::exchange(done_, nullptr)(true);
    return true;
  }
  bool finished() const override { return !done_; }
  bool wait_for(std::chrono::microseconds) override { return !done_; }
  std::uint64_t progress() const override { return progress_; }
  double busy_seconds() const override { return 0; }

  std::vector<std::size_t> widths;  // rows of the runs computed so far, including the loading

 private:
  std::int64_t& now_;
  std::function<void(bool)> done_;
  std::uint64_t progress_ = 0;
};

/// Guesses given tokens with probability 1, and records what it is told.
class ScriptedSource final : public GuessSource {
 public:
  ScriptedSource(int index, Ids layers) : GuessSource(index), layers_(std::move(layers)) {}
  void begin(std::uint64_t request) override { requests.push_back(request); }
  bool guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) override {
    demands.push_back(demand);
    told.assign(text.begin(), text.end());
    if (knows) next = {text.back() + 1};
    NodeId at = tree.root().id;
    for (const std::int32_t token : next) at = calibration_.add(tree, at, token, 0.99f);
    const bool grown = !next.empty();
    if (knows) next.clear();
    return grown;
  }
  void step_ended(const TextStep& step) override { steps.push_back(step); }
  std::optional<GuessLatency> next_guess() override { return latency; }
  bool pending() const override { return is_pending; }
  bool shares_unit() const override { return is_here; }
  Ids feature_layers() const override { return layers_; }
  void take_features(std::int32_t position, std::span<const float> row) override {
    EXPECT_TRUE(features.emplace(position, std::vector<float>(row.begin(), row.end())).second) << position << " came twice";
  }

  Ids next, told;
  std::vector<GuessDemand> demands;
  std::vector<TextStep> steps;
  std::vector<std::uint64_t> requests;
  std::optional<GuessLatency> latency;
  bool is_pending = false, is_here = false;
  bool knows = false;  // whether it guesses the next token correctly
  std::map<std::int32_t, std::vector<float>> features;

 private:
  Ids layers_;
};

/// The token after a text is the number of its tokens.
class DecoderTest : public testing::Test {
 protected:
  DecoderTest() : network_(1), transport_(network_, 0), unit_(ns_), clock_(ns_), sources_(transport_) {
    simulation::TableShape shape;
    shape.cells = 256, shape.sequences = 17, shape.vocabulary = kVocabulary;
    shape.logits = [this](std::uint64_t prefix, std::span<float> logits) { logits[next_of(prefix)] = 1; };
    Ids text = prompt_;
    for (std::int32_t token = 3; token < kVocabulary; ++token) {
      next_[simulation::prefix_hash(text)] = static_cast<std::size_t>(token);
      text.push_back(token);
    }
    pipeline_ =
        std::make_unique<Pipeline>(transport_, PipelineRanks{kTargetChannel, {{0}}}, std::make_unique<TableModel>(shape, unit_), 256, 17);
    pipeline_->stage().load();
    unit_.finish();
    pipeline_->advance();
    options_.strategy = Strategy::kPipeInfer;
    options_.generate = 20;
    options_.context = 100;
    options_.guess_cells = 32;
    options_.sequences = {0, 17};
    options_.policy.draft = 4;
  }

  ~DecoderTest() override { unit_.finish(); }

  ScriptedSource& add_source(Ids layers = {}) {
    auto source = std::make_unique<ScriptedSource>(sources_.next_index(), std::move(layers));
    ScriptedSource& added = *source;
    sources_.add(std::move(source));
    return added;
  }
  Decoder& begin() {
    decoder_ = std::make_unique<Decoder>(
        *pipeline_, sources_, options_,
        [](std::vector<float>& logits, std::span<const std::int32_t>) {
          return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
        },
        [this](std::int32_t token) {
          text_.push_back(token);
          return true;
        });
    text_ = prompt_;
    decoder_->begin(prompt_);
    settle();
    return *decoder_;
  }
  /// Advances everything that needs no computation.
  void settle() {
    for (bool anything = true; anything;) {
      anything = pipeline_->advance();
      while (auto message = transport_.receive()) {
        pipeline_->on_message(std::move(*message));
        anything = true;
      }
      anything |= decoder_->advance();
    }
  }
  /// Ends the current run.
  bool step() {
    if (!unit_.finish()) return false;
    settle();
    return true;
  }
  std::size_t last_width() const { return unit_.widths.back(); }
  std::size_t next_of(std::uint64_t prefix) const {
    const auto found = next_.find(prefix);
    return found == next_.end() ? 0 : found->second;
  }

  const Ids prompt_{0, 1, 2};
  Ids text_;
  DecodeOptions options_;
  HandUnit& unit() { return unit_; }
  GuessSources& sources() { return sources_; }

 private:
  std::int64_t ns_ = 1'000'000'000;
  LocalNetwork network_;
  LocalTransport transport_;
  HandUnit unit_;
  const Clock::Override clock_;
  std::map<std::uint64_t, std::size_t> next_;
  std::unique_ptr<Pipeline> pipeline_;
  GuessSources sources_;
  std::unique_ptr<Decoder> decoder_;
};

TEST_F(DecoderTest, Prompt_goesInChunks_andItsLastTokenGivesTheFirst) {
  options_.batch = 2;
  options_.strategy = Strategy::kIterative;
  Decoder& decoder = begin();
  EXPECT_EQ(last_width(), 2u);
  EXPECT_FALSE(decoder.prefilled());
  ASSERT_TRUE(step());
  EXPECT_EQ(last_width(), 1u);
  ASSERT_TRUE(step());
  EXPECT_TRUE(decoder.prefilled());
  EXPECT_EQ(text_, (Ids{0, 1, 2, 3}));
  EXPECT_EQ(decoder.counters().runs_started, 3u);
}

TEST_F(DecoderTest, Guesses_goWithTheRoot_andAsManyTokensComeAsWereRight) {
  ScriptedSource& source = add_source();
  Decoder& decoder = begin();
  source.next = {4, 5, 17};
  ASSERT_TRUE(step());  // the prompt gives 3; the source guesses the following tokens
  EXPECT_EQ(text_.back(), 3);
  EXPECT_EQ(last_width(), 4u);
  source.next.clear();
  ASSERT_TRUE(step());
  EXPECT_EQ(text_, (Ids{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(decoder.counters().drafted, 3u);
  EXPECT_EQ(decoder.counters().accepted, 2u);
  EXPECT_EQ(source.told, text_);
  EXPECT_EQ(source.steps.back().tokens, 3);
  EXPECT_FALSE(source.steps.back().first);
  EXPECT_NEAR(source.steps.back().seconds, 0.010, 1e-9);
}

TEST_F(DecoderTest, TypicalAcceptance_takesGuessesThatAreLikelyEnough) {
  // Before each token of the text, its probability is e / (49 + e) = .053, and that of every other token .019; .3 e^-entropy is .006.
  options_.typical = TypicalAcceptance{};
  options_.typical->banned = {19};
  ScriptedSource& source = add_source();
  Decoder& decoder = begin();
  source.next = {17, 18, 19};
  ASSERT_TRUE(step());
  source.next.clear();
  ASSERT_TRUE(step());
  EXPECT_EQ(text_, (Ids{0, 1, 2, 3, 17, 18, 0})) << "no text of the target's goes on like this; 0 is chosen after it";
  EXPECT_EQ(decoder.counters().accepted, 2u);
}

TEST_F(DecoderTest, TypicalAcceptance_ofWhatIsTooUnlikely_isNone) {
  options_.typical = TypicalAcceptance{};
  options_.typical->temperature = 0.25f;  // e^4: .53 before the text's tokens, .0097 before others; .3 e^-entropy is .026
  ScriptedSource& source = add_source();
  begin();
  source.next = {17};
  ASSERT_TRUE(step());
  source.next.clear();
  ASSERT_TRUE(step());
  EXPECT_EQ(text_, (Ids{0, 1, 2, 3, 4}));
}

TEST_F(DecoderTest, MultiSequence_hasAsManyGuessesAsAreMadeInTheTimeOfARun) {
  options_.policy.name = "multi-sequence";
  options_.strategy = Strategy::kSpeculative;
  ScriptedSource& source = add_source();
  begin();
  source.latency = GuessLatency{1, 0.004};  // a run takes 10 ms: time for two guesses
  ASSERT_TRUE(step());
  source.next = {5, 6, 7, 8};
  ASSERT_TRUE(step());  // the first run of one row has been measured
  EXPECT_EQ(last_width(), 3u);
}

TEST_F(DecoderTest, Iterative_sendsNoGuess) {
  options_.strategy = Strategy::kIterative;
  add_source().next = {4, 5};
  begin();
  ASSERT_TRUE(step());
  EXPECT_EQ(last_width(), 1u);
}

TEST_F(DecoderTest, Root_waitsForAGuessThatComesInTime_andForNoOther) {
  ScriptedSource& source = add_source();
  begin();
  source.knows = true;
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(step());
  source.knows = false;
  source.latency = GuessLatency{0.001, 0.001};
  ASSERT_TRUE(step());
  EXPECT_FALSE(step()) << "nothing is computed: the root waits";
  source.latency = GuessLatency{0.5, 0.5};
  settle();
  EXPECT_TRUE(step()) << "such a guess is not worth it";
}

TEST_F(DecoderTest, DraftOnTheHead_isWaitedForToItsEnd) {
  ScriptedSource& source = add_source();
  source.is_here = source.is_pending = true;
  Decoder& decoder = begin();
  EXPECT_FALSE(step()) << "the prompt's last chunk waits, too";
  EXPECT_TRUE(source.demands.back().until_complete);
  EXPECT_EQ(source.demands.back().min_drafts, options_.policy.draft);
  source.is_pending = false;
  settle();
  EXPECT_TRUE(step());
  EXPECT_TRUE(decoder.prefilled());
}

TEST_F(DecoderTest, DraftOnTheHead_isLeftOutNowAndThen_soThatATokenAloneIsMeasured) {
  ScriptedSource& source = add_source();
  source.is_here = source.knows = true;
  begin();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(step());
  const std::vector<std::size_t> runs(unit().widths.end() - 10, unit().widths.end());
  EXPECT_EQ(runs, (std::vector<std::size_t>{1, 2, 2, 2, 2, 2, 2, 1, 2, 2}));
  EXPECT_EQ(source.steps.back().alone_s, 0.010);
  EXPECT_EQ(std::ranges::count_if(source.demands, &GuessDemand::suspended), 2);
}

TEST_F(DecoderTest, DraftElsewhere_isNotWaitedForBesideOneOnTheHead) {
  ScriptedSource& here = add_source();
  ScriptedSource& elsewhere = add_source();
  here.is_here = elsewhere.is_pending = true;
  begin();
  EXPECT_TRUE(step());
  EXPECT_TRUE(here.demands.back().until_complete);
  EXPECT_FALSE(elsewhere.demands.back().until_complete);
  EXPECT_EQ(elsewhere.demands.back().min_drafts, 0) << "it goes on without end";
}

TEST_F(DecoderTest, Demand_saysWhatTokensAndRowsTake_whereItMatters) {
  options_.policy.name = "chain";
  options_.strategy = Strategy::kSpeculative;
  ScriptedSource& source = add_source();
  begin();
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(step());
  EXPECT_EQ(source.demands.back().epoch, 7u);
  EXPECT_NEAR(source.demands.back().token_s, 0.010, 1e-9);
  EXPECT_NEAR(source.demands.back().row_s, 0.001, 1e-9) << "a tenth, as long as no wider run was measured";
}

TEST_F(DecoderTest, Text_endsWhereItsListenerOrTheContextSaysSo) {
  options_.strategy = Strategy::kIterative;
  options_.context = 6;
  const Decoder& decoder = begin();
  while (!decoder.finished()) ASSERT_TRUE(step());
  EXPECT_EQ(text_.size(), 7u) << "the last needs no cell";
}

TEST_F(DecoderTest, Features_areThoseOfCommittedPositions_eachOnce) {
  ScriptedSource& source = add_source({kOutputFeatures});
  ScriptedSource& deeper = add_source({0, kOutputFeatures});
  ScriptedSource& other = add_source();
  options_.batch = 2;
  Decoder& decoder = begin();
  source.next = {4, 20, 21};  // a right guess and two wrong ones
  while (!decoder.finished()) ASSERT_TRUE(step());
  for (std::int32_t p = 0; p + 1 < static_cast<std::int32_t>(text_.size()); ++p) {
    const auto at = static_cast<std::size_t>(p);
    ASSERT_TRUE(source.features.contains(p)) << p;
    const auto features_of = [&](std::int32_t layer) {
      return simulation::features_of(simulation::token_hash(text_[at], p), simulation::prefix_hash(std::span(text_).first(at + 1)), layer);
    };
    EXPECT_EQ(source.features[p], features_of(kOutputFeatures)) << p;
    std::vector<float> both = features_of(0);
    std::ranges::copy(features_of(kOutputFeatures), std::back_inserter(both));
    EXPECT_EQ(deeper.features[p], both) << p;
  }
  EXPECT_EQ(source.features.size(), text_.size() - 1);
  EXPECT_TRUE(other.features.empty());
}

TEST_F(DecoderTest, AnotherText_beginsOnTheSamePipelineWithTheSameSources) {
  ScriptedSource& source = add_source({kOutputFeatures});
  options_.generate = 5;
  for (std::uint64_t request = 1; request <= 20; ++request) {
    options_.request = request;
    source.features.clear();
    source.next.clear();
    Decoder& decoder = begin();
    source.next = {4, 5, 9};
    while (!decoder.finished()) ASSERT_TRUE(step());
    EXPECT_EQ(text_, (Ids{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(source.requests.back(), request);
    EXPECT_EQ(source.features.size(), 7u);
  }
}

}  // namespace
}  // namespace yamata
