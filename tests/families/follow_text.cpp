// follow_text MODEL STEPS: computes a model's probabilities after the prompt of the small models and each token of a text. STEPS has the
// text in the format of tests/families/expected. Prints the ten best tokens at each step in the same format.
#include <cstdio>
#include <exception>

#include "node/cpu/cpu_unit.hpp"
#include "src/model/model_file.hpp"
#include "src/model/transformer_stage.hpp"
#include "tests/families/greedy_text.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/finish.hpp"

namespace yamata::families_test {
namespace {

void follow(const std::string& path, const Text& text) {
  const ModelFile model = ModelFile::open(path);
  CpuUnit unit({-1, -1}, cpu::choose_isa());
  TransformerStage stage(model.file, model.h, {0, model.h.layers}, {256, 1, CacheType::kF32}, unit);
  stage.load(nullptr);
  finish(unit);
  std::vector<std::int32_t> tokens = tiny_prompt();
  std::int32_t position = 0;
  for (const Step& expected : text) {
    std::vector<Placement> placements;
    for (std::size_t i = 0; i < tokens.size(); ++i) placements.push_back({position++, -1, {0, 1}});
    const std::vector<std::int32_t> rows{static_cast<std::int32_t>(tokens.size()) - 1};
    stage.start({tokens, {}, placements, rows}, nullptr);
    finish(unit);
    const Step found = greedy_step(stage.logits().data(), stage.logits().size());
    std::printf("%d", found.id);
    for (const auto& [id, value] : found.best) std::printf(" %d:%.5f", id, value);
    std::printf("\n");
    tokens = {expected.id};
  }
}

}  // namespace
}  // namespace yamata::families_test

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: follow_text MODEL STEPS\n");
    return 1;
  }
  try {
    yamata::families_test::follow(argv[1], yamata::families_test::read_text(argv[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
