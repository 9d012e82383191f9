#pragma once
// A decoder over a pipeline of one stage, whose runs end when the test says so, and a source whose guesses the test writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "mpi/decoding/decoder.hpp"
#include "mpi/transport/local_transport.hpp"
#include "src/simulation/table_model.hpp"
#include "tests/mpi/hand_unit.hpp"

namespace yamata::test {

using Ids = std::vector<std::int32_t>;

inline constexpr std::int32_t kVocabulary = 50;
inline constexpr std::int64_t kMs = 1'000'000;

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
  std::optional<double> guess_s() const override { return takes_s; }
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
  std::optional<double> takes_s;
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
    pipeline_ = std::make_unique<Pipeline>(transport_, PipelineRanks{kTargetChannel, {{0}}},
                                           std::make_unique<simulation::TableModel>(shape, unit_), 256, 17);
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
    decoder_.reset();
    target_.emplace(*pipeline_);
    decoder_ = std::make_unique<Decoder>(
        *target_, sources_, options_,
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
  std::optional<Target> target_;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace yamata::test
