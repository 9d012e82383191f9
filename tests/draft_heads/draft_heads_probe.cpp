// Computes the choices of heads for texts whose hidden states are in a file of yamata features. reference.py compares them.
//
//   draft_heads_probe TARGET HEADS STATES q8_0|stored STEPS
//
// Prints a line per text: for every position from the second on, the first choice after it and the first STEPS tokens of a chain of first
// choices.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "node/cpu/cpu_unit.hpp"
#include "src/draft_heads/draft_heads_file.hpp"
#include "src/safetensors/safetensors.hpp"
#include "tests/draft_heads/stage_run.hpp"

namespace yamata {
namespace {

constexpr std::int32_t kCells = 2048;

class Probe {
 public:
  explicit Probe(StageModel& model) : model_(model) {
    model_.load(nullptr);
    finish(model_.unit());
  }

  /// The best token after each of the last rows of `tokens`; `features`: of the token before each, or empty.
  std::int32_t best_after(std::span<const std::int32_t> tokens, std::span<const float> features, std::int32_t position,
                          std::int32_t sequence, std::vector<std::int32_t>* all = nullptr) {
    std::vector<Placement> placements;
    std::vector<std::int32_t> rows;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      placements.push_back({position + static_cast<std::int32_t>(i), -1, {sequence, sequence + 1}});
      if (all || i + 1 == tokens.size()) rows.push_back(static_cast<std::int32_t>(i));
    }
    const std::span<const float> logits = logits_of(model_, tokens, placements, rows, features);
    const std::size_t vocabulary = logits.size() / rows.size();
    std::int32_t last = 0;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto from = logits.begin() + static_cast<std::ptrdiff_t>(row * vocabulary);
      last = static_cast<std::int32_t>(std::max_element(from, from + static_cast<std::ptrdiff_t>(vocabulary)) - from);
      if (all) all->push_back(last);
    }
    return last;
  }
  CellTable& cells() { return model_.cells(); }

 private:
  StageModel& model_;
};

struct States {
  std::vector<std::int64_t> ids, texts;
  std::vector<std::vector<float>> layers;

  States(const safetensors::File& file, const std::vector<std::int32_t>& wanted) {
    ids = file.find("ids")->integers();
    texts = file.find("texts")->integers();
    for (const std::int32_t layer : wanted)
      layers.push_back(file.find(layer == kOutputFeatures ? "hidden.last" : fmt::format("hidden.{}", layer))->floats());
  }
  /// Rows from `begin` to `end`: [rows][layers][dim].
  std::vector<float> rows(std::int64_t begin, std::int64_t end) const {
    const std::size_t dim = layers.front().size() / ids.size();
    std::vector<float> all;
    for (std::int64_t row = begin; row < end; ++row) {
      for (const auto& layer : layers) {
        const auto from = layer.begin() + row * static_cast<std::ptrdiff_t>(dim);
        all.insert(all.end(), from, from + static_cast<std::ptrdiff_t>(dim));
      }
    }
    return all;
  }
};

int probe(const char* target_path, const char* draft_heads_path, const char* states_path, draft_heads::MatrixType matrices, int steps) {
  const ModelFile target = ModelFile::open(target_path);
  const auto draft_heads = draft_heads::DraftHeadsFile::open(draft_heads_path, std::nullopt);
  const ContextOptions context{.cells = kCells, .sequences = 2, .cache_types = CacheType::kF16, .pack = true, .group = {}};
  const draft_heads::Needs needs = draft_heads.needs(target, context, matrices);
  const auto file = safetensors::File::open(states_path);
  const States states(file, needs.feature_layers);
  CpuUnit unit({-1}, cpu::choose_isa());
  const auto model = draft_heads.make_stage(target, context, matrices, unit);
  Probe probe(*model);
  for (std::size_t text = 0; text + 1 < states.texts.size(); ++text) {
    const std::int64_t begin = states.texts[text], end = states.texts[text + 1];
    const std::vector<std::int32_t> ids(states.ids.begin() + begin, states.ids.begin() + end);
    std::vector<std::int32_t> first;
    std::vector<std::vector<std::int32_t>> chains;
    for (std::int32_t at = 1; at < static_cast<std::int32_t>(ids.size()); ++at) {
      const std::vector<float> features = states.rows(begin + at - 1, begin + at);
      first.push_back(probe.best_after(std::span(ids).subspan(static_cast<std::size_t>(at), 1), features, at, 0));
      probe.cells().copy(0, {1, 2}, {0, at + 1});
      std::vector<std::int32_t> chain{first.back()};
      for (int step = 1; step < steps; ++step) chain.push_back(probe.best_after(std::span(chain).last(1), {}, at + step, 1));
      probe.cells().remove({1, 2}, {0, kUnbounded});
      chains.push_back(std::move(chain));
    }
    fmt::print("{{\"first\": [{}], \"chains\": {}}}\n", fmt::join(first, ","), chains);
    probe.cells().clear();
  }
  return 0;
}

}  // namespace
}  // namespace yamata

int main(int argc, char** argv) {
  if (argc != 6) return 1;
  try {
    return yamata::probe(argv[1], argv[2], argv[3],
                         std::string(argv[4]) == "q8_0" ? yamata::draft_heads::MatrixType(yamata::TensorType::Q8_0) : std::nullopt,
                         std::atoi(argv[5]));
  } catch (const std::exception& e) {
    fmt::print(stderr, "draft_heads_probe: {}\n", e.what());
    return 2;
  }
}
