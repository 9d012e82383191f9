// Which text's tokens run next: all that are ready together, prompts between them, and nobody waits for long.
#include "mpi/engine/scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "mpi/transport/local_transport.hpp"
#include "src/simulation/table_model.hpp"
#include "tests/mpi/hand_unit.hpp"

namespace yamata {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kBatch = 64, kSlots = 10, kContext = 2200;
constexpr std::int64_t kRowNs = 500'000;

/// Texts on a pipeline of one stage.
class SchedulerTest : public testing::Test {
 protected:
  struct Text {
    std::unique_ptr<GuessSources> sources;
    std::unique_ptr<Decoder> decoder;
    std::vector<std::size_t> grown;  // after so many runs
  };

  SchedulerTest() : network_(1), transport_(network_, 0), unit_(ns_, kRowNs), clock_(ns_) {
    simulation::TableShape shape;
    shape.cells = kSlots * kContext, shape.sequences = kSlots, shape.vocabulary = 1;
    shape.logits = [](std::uint64_t, std::span<float> logits) { logits[0] = 1; };
    pipeline_ = std::make_unique<Pipeline>(transport_, PipelineRanks{kTargetChannel, {{0}}},
                                           std::make_unique<simulation::TableModel>(shape, unit_), shape.cells, kSlots);
    pipeline_->stage().load();
    unit_.finish();
    pipeline_->advance();
    unit_.widths.clear();
    target_ = std::make_unique<Target>(*pipeline_);
    scheduler_ = std::make_unique<Scheduler>(*target_, kBatch);
  }
  ~SchedulerTest() override { unit_.finish(); }

  Text& begin(std::size_t prompt) {
    Text& text = *texts_.emplace_back(std::make_unique<Text>());
    DecodeOptions options;
    options.generate = options.context = kContext;
    options.batch = kBatch;
    options.logits = 1;
    const auto sequence = static_cast<std::int32_t>(texts_.size()) - 1;
    options.sequences = {sequence, sequence + 1};
    text.sources = std::make_unique<GuessSources>(transport_);
    text.decoder = std::make_unique<Decoder>(
        *target_, *text.sources, options, [](std::vector<float>&, std::span<const std::int32_t>) { return 0; },
        [this, &text](std::int32_t) {
          text.grown.push_back(unit_.widths.size());
          return true;
        });
    text.decoder->begin(Ids(prompt, 0));
    return text;
  }
  /// Until so many further runs have ended.
  void play(std::size_t runs) {
    for (; runs > 0; --runs) {
      settle();
      ASSERT_TRUE(unit_.finish()) << "nothing runs, though something could";
    }
    settle();
  }
  void settle() {
    for (bool anything = true; anything;) {
      anything = pipeline_->advance();
      std::vector<Decoder*> decoders;
      for (const auto& text : texts_) {
        anything |= text->decoder->receive();
        decoders.push_back(text->decoder.get());
      }
      anything |= scheduler_->send(decoders);
      while (auto message = transport_.receive()) {  // a result takes a while
        pipeline_->on_message(std::move(*message));
        anything = true;
      }
    }
  }
  static std::size_t longest_gap(const Text& text, std::size_t from) {
    std::size_t longest = 0;
    for (std::size_t i = 1; i < text.grown.size(); ++i) {
      if (text.grown[i] >= from) longest = std::max(longest, text.grown[i] - text.grown[i - 1]);
    }
    return longest;
  }

  std::int64_t ns_ = 1'000'000'000;
  LocalNetwork network_;
  LocalTransport transport_;
  test::HandUnit unit_;
  const Clock::Override clock_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<Target> target_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<Text>> texts_;
};

TEST_F(SchedulerTest, TextsThatGrow_shareEveryRun) {
  for (int i = 0; i < 5; ++i) {
    begin(3);
    play(1);
  }
  play(40);
  EXPECT_EQ(std::vector(unit_.widths.end() - 30, unit_.widths.end()), std::vector<std::size_t>(30, 5));
}

TEST_F(SchedulerTest, ShortPrompts_shareARun) {
  begin(8);
  play(3);
  const std::size_t before = unit_.widths.size();
  for (int i = 0; i < 5; ++i) begin(8);
  play(6);
  EXPECT_EQ(std::ranges::count(unit_.widths, 41u), 1) << "five prompts of eight tokens, and a last token";
  EXPECT_EQ(std::ranges::max(std::vector(unit_.widths.begin() + static_cast<std::ptrdiff_t>(before), unit_.widths.end())), 41u);
}

TEST_F(SchedulerTest, ALongPrompt_sharesTheRunsOfTextsThatGrow) {
  for (int i = 0; i < 8; ++i) begin(5);
  play(30);
  const std::size_t from = unit_.widths.size();
  Text& arriving = begin(2000);
  for (int i = 0; arriving.grown.empty() && i < 500; ++i) play(1);
  ASSERT_FALSE(arriving.grown.empty());
  play(2);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_LE(longest_gap(*texts_[i], from), 1u) << "text " << i;
  // Once the time of a prompt's row is known, it makes runs about twice as long: 8 rows take 14 ms, and each further one half of one.
  const std::vector<std::size_t> widths(unit_.widths.begin() + static_cast<std::ptrdiff_t>(from) + 5, unit_.widths.end() - 3);
  EXPECT_GE(std::ranges::min(widths), 34u);
  EXPECT_LE(std::ranges::max(widths), 40u);
}

TEST_F(SchedulerTest, TwoLongPrompts_haveTurns) {
  Text& first = begin(1000);
  play(2);
  Text& second = begin(500);
  for (int i = 0; (first.grown.empty() || second.grown.empty()) && i < 200; ++i) play(1);
  ASSERT_FALSE(first.grown.empty() || second.grown.empty());
  EXPECT_LT(second.grown.front(), first.grown.front()) << "it is shorter, so it need not wait for all of the other";
}

}  // namespace
}  // namespace yamata
