// The MTP layer of a model with hyper-connections, compared with its definition: the layer is also read as the last one of a model, whose
// input is computed here.
#include <gtest/gtest.h>

#include <cmath>

#include "src/model/transformer_stage.hpp"
#include "tests/draft_heads/text_run.hpp"
#include "tests/families/changed_gguf.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::draft_heads {
namespace {

using Floats = std::vector<float>;
constexpr std::size_t kWidth = 192, kStreams = 3, kAll = kStreams * kWidth;

class NextnStreams : public ::testing::Test, protected TextRun {
 protected:
  NextnStreams() : TextRun({-1}, families_test::tiny_prompt(), kAll, 512) {
    const std::string path = folder_ / "model.gguf";
    families_test::write_tiny_model("qwen4exp-nextn", TensorType::F32, path);
    target_.emplace(ModelFile::open(path));
    at_ = "blk." + std::to_string(target_->h.layers) + ".";
  }

  /// The same file, with the layer as one of the model's, and the mix after it as that before the output.
  ModelFile with_a_layer_more() {
    const std::string path = folder_ / "more.gguf", mix = at_ + "nextn.hc_head_";
    families_test::write_changed(target_->file, path, [&](gguf::Tensor& tensor) {
      if (tensor.name.starts_with("output_hc_")) return false;
      if (tensor.name.starts_with(mix)) tensor.name = "output_hc_" + tensor.name.substr(mix.size());
      return true;
    });
    ModelFile more{gguf::File::open(path), target_->h};
    ++more.h.layers, more.h.nextn_layers = 0;
    more.h.mixers.push_back(Mixer::kAttention), more.h.sparse.push_back(false);
    return more;
  }
  const float* weight(const std::string& name) const { return reinterpret_cast<const float*>(target_->file.tensor(name).data); }
  /// Appends RMSNorm(x) to `out`.
  void append_norm(const float* x, const float* weights, Floats& out) const {
    double squares = 0;
    for (std::size_t i = 0; i < kWidth; ++i) squares += double{x[i]} * double{x[i]};
    const double scale = 1 / std::sqrt(squares / kWidth + double{target_->h.epsilon});
    for (std::size_t i = 0; i < kWidth; ++i) out.push_back(static_cast<float>(double{x[i]} * scale * double{weights[i]}));
  }
  /// The input of the layer for a token, [streams][dim]: a product of its embedding and of each stream of the hidden state before it.
  Floats input(std::int32_t token, const float* hidden) const {
    Floats all;
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      Floats pair;
      append_norm(weight("token_embd.weight") + static_cast<std::size_t>(token) * kWidth, weight(at_ + "nextn.enorm.weight"), pair);
      append_norm(hidden + stream * kWidth, weight(at_ + "nextn.hnorm.weight") + stream * kWidth, pair);
      for (std::size_t row = 0; row < kWidth; ++row) {
        double sum = 0;
        for (std::size_t i = 0; i < 2 * kWidth; ++i)
          sum += double{weight(at_ + "nextn.eh_proj.weight")[row * 2 * kWidth + i]} * double{pair[i]};
        all.push_back(static_cast<float>(sum));
      }
    }
    return all;
  }

  /// The logits of the last row of a run of the layer as one of a model; `left`: what it leaves of the last row, [streams][dim].
  static Floats run_layer(TransformerStage& stage, const Floats& inputs, std::int32_t first, Floats& left) {
    const auto rows = static_cast<std::int32_t>(inputs.size() / kAll);
    std::vector<Placement> placements;
    for (std::int32_t i = 0; i < rows; ++i) placements.push_back({first + i, -1, {0, 1}});
    const std::vector<std::int32_t> last{rows - 1}, layers{kStreamFeatures, kStreamFeatures + 1, kStreamFeatures + 2};
    stage.start({.tokens = {},
                 .activations = inputs,
                 .placements = placements,
                 .logit_rows = last,
                 .feature_rows = last,
                 .features = {},
                 .feature_layers = layers},
                nullptr);
    finish(stage.unit());
    left.assign(stage.features().begin(), stage.features().end());
    return {stage.logits().begin(), stage.logits().end()};
  }
  static void expect_near(const Floats& found, const Floats& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-4) << i;
  }

  test::TemporaryFolder folder_;
  std::optional<ModelFile> target_;
  std::string at_;
};

TEST_F(NextnStreams, Layer_readsEveryStream_andLeavesThemForTheNextGuess) {
  const ModelFile more = with_a_layer_more();
  TransformerStage layer(more.file, more.h, {more.h.layers - 1, more.h.layers}, {64, 1, CacheType::kF16}, unit_);
  const auto head = load(DraftHeadsFile::in_target(target_->file), *target_);
  constexpr std::size_t kText = 5;
  Floats inputs, left;
  for (std::size_t i = 0; i < kText; ++i) {
    const Floats of_token = input(tokens_[i], features_.data() + i * kAll);
    inputs.insert(inputs.end(), of_token.begin(), of_token.end());
  }
  expect_near(row(read_text(*head, 0, kText), kText - 1), run_layer(layer, inputs, 1, left));
  for (std::int32_t guessed = 300; guessed < 303; ++guessed) {
    const std::int32_t position = guessed - 300 + static_cast<std::int32_t>(kText) + 1;
    const Floats found = guess(*head, {guessed}, {{position, -1, {0, 1}}});
    expect_near(found, run_layer(layer, input(guessed, left.data()), position, left));
  }
}

}  // namespace
}  // namespace yamata::draft_heads
