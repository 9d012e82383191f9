#include "tests/mpi/simulation/scenario.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <random>
#include <utility>

#include "src/speculation/shaped_policies.hpp"
#include "tests/mpi/simulation/random_grammar.hpp"

namespace yamata::test {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed * 7919 + 1) {}
  std::size_t below(std::size_t end) { return random_() % end; }
  int between(int low, int high) { return low + static_cast<int>(below(static_cast<std::size_t>(high - low) + 1)); }
  bool chance(int percent) { return between(1, 100) <= percent; }
  double real(double low, double high) { return low + (high - low) * static_cast<double>(below(10000)) / 10000; }

 private:
  std::mt19937_64 random_;
};

void draw_drafters(Draw& draw, Scenario& s) {
  const int drafters = s.decode.strategy == Strategy::kIterative ? 0 : draw.between(1, 3);
  for (int d = 0; d < drafters; ++d) s.drafters.push_back({draw.chance(25) ? 2 : 1, false, draw.chance(20) ? 1.0 : draw.real(0, 0.8)});
  if (drafters > 0 && draw.chance(15)) s.drafters = {{0, false, draw.real(0, 0.8)}};
  for (auto& drafter : s.drafters) drafter.group = drafter.ranks > 1 && draw.chance(50);
}

void draw_policy(Draw& draw, PolicyOptions& policy) {
  policy.name = draw.chance(50) ? "best-first" : "chain";
  policy.draft = draw.between(1, 8);
  policy.threshold = static_cast<float>(draw.real(0, 0.2));
  policy.accept = static_cast<float>(draw.chance(40) ? 0 : draw.real(0, 0.6));
  policy.split = static_cast<float>(draw.real(0, 0.4));
  policy.recovery = static_cast<float>(draw.chance(50) ? 0 : draw.real(0, 0.2));
  policy.decay = static_cast<float>(draw.chance(50) ? 0 : draw.real(0, 0.05));
  policy.branches = draw.between(1, 4);
}

void draw_shaped_policy(Draw& draw, PolicyOptions& policy) {
  constexpr std::array kShaped{"static-tree", "dynamic-tree", "multi-sequence"};
  policy.name = kShaped.at(draw.below(kShaped.size()));
  policy.depth = draw.between(1, 5);
  policy.children = draw.between(1, 4);
}

void draw_features(Draw& draw, Scenario& s) {
  const bool features = draw.chance(30);
  for (std::int32_t layer = 0; features && layer < static_cast<std::int32_t>(s.stages.size()); ++layer) {
    if (draw.chance(40)) s.feature_layers.push_back(layer);
  }
  if (features && (s.feature_layers.empty() || draw.chance(50))) s.feature_layers.push_back(kOutputFeatures);
}

/// A drafter on the head, or one that may die, would have the heads on the same rank.
void draw_draft_heads(Scenario& s, Draw& draw) {
  const bool speculates = s.decode.strategy != Strategy::kIterative && s.decode.sequences.end > 1 && s.decode.guess_cells > 0;
  const bool beside = !s.drafters.empty() && s.drafters[0].ranks == 1 && !s.drafter_that_dies;
  for (int count = speculates && draw.chance(35) ? draw.between(1, 2) : 0; count > 0; --count) {
    Scenario::DraftHeads draft_heads{.place = static_cast<Scenario::DraftHeads::Place>(draw.between(0, beside ? 2 : 1)),
                                     .layers = {},
                                     .disagreement = draw.between(0, 80) / 100.0};
    for (std::int32_t layer = 0; layer < static_cast<std::int32_t>(s.stages.size()); ++layer) {
      if (draw.chance(30)) draft_heads.layers.push_back(layer);
    }
    draft_heads.layers.push_back(kOutputFeatures);
    s.draft_heads.push_back(std::move(draft_heads));
  }
}

}  // namespace

Scenario Scenario::random(std::uint64_t seed) {
  Draw draw(seed);
  Scenario s;
  s.seed = seed;
  s.stages.assign(static_cast<std::size_t>(draw.between(1, 5)), 1);
  for (int& members : s.stages) members = draw.chance(25) ? draw.between(2, 3) : 1;
  s.decode.strategy = static_cast<Strategy>(draw.chance(10) ? 0 : draw.chance(25) ? 1 : 2);
  draw_drafters(draw, s);
  s.vocabulary = draw.between(2, 12);
  s.prompt = draw.between(1, 12);
  s.operations = draw.between(1, 8);
  s.unplayable_speeds = draw.chance(60);
  draw_policy(draw, s.decode.policy);
  s.decode.generate = draw.between(1, 40);
  s.decode.context = draw.chance(80) ? s.prompt + s.decode.generate + 8 : s.prompt + draw.between(0, s.decode.generate);
  s.decode.guess_cells = s.drafters.empty() ? 0 : draw.between(1, 40);
  s.decode.sequences = {0, s.drafters.empty() ? 1 : draw.chance(20) ? 2 : draw.between(2, 41)};
  s.decode.batch = draw.between(1, 8);
  s.decode.cancel = !draw.chance(15);
  s.decode.continuous = !draw.chance(15);
  s.draft.width = draw.between(1, 6);
  s.draft.children = draw.between(1, 5);
  s.draft.credit = draw.between(4, 40);
  s.draft.threshold = static_cast<float>(draw.real(0, 0.1));
  s.sampling.temperature = static_cast<float>(draw.chance(50) ? 0 : draw.real(0.2, 1.5));
  s.sampling.repeat_penalty = static_cast<float>(draw.chance(70) ? 1 : draw.real(1, 1.5));
  s.sampling.seed = seed;
  s.decode.reuse_tree = !draw.chance(15);
  if (s.decode.strategy == Strategy::kPipeInfer && draw.chance(10)) s.drafter_that_dies = draw.below(s.drafters.size());
  s.decode.lookup = s.decode.strategy != Strategy::kIterative && draw.chance(40);
  if (s.decode.lookup && s.decode.strategy == Strategy::kPipeInfer && draw.chance(20)) {
    s.drafters.clear();
    s.drafter_that_dies.reset();
  }
  if (draw.chance(50)) s.decode.logits = logits_read(s.sampling, 0);
  if (draw.chance(40)) s.texts = draw.between(2, 3);
  draw_features(draw, s);
  if (draw.chance(40)) draw_shaped_policy(draw, s.decode.policy);
  if (s.decode.lookup && s.decode.strategy == Strategy::kSpeculative && draw.chance(30)) s.drafters.clear();
  draw_draft_heads(s, draw);
  if (draw.chance(50)) s.window = draw.between(1, 6);
  if (s.decode.lookup && draw.chance(30)) s.decode.prompt_lookup = draw.between(1, 4);
  if (draw.chance(30)) s.decode.policy.sequences = draw.between(1, 4);
  if (draw.chance(30)) s.decode.policy.budget = draw.between(1, 12);
  if (const DraftOptions of_policy = draft_options(s.decode.policy); of_policy.sequences > 0) {
    s.draft.sequences = of_policy.sequences;
    s.draft.fixed_sequences = of_policy.fixed_sequences;
    s.draft.children = of_policy.children;
  }
  if (draw.chance(50)) s.decode.cancel_route = CancelRoute::kBackward;
  s.decode.datastore = s.decode.lookup && draw.chance(15);
  if (s.decode.lookup && !s.decode.datastore && draw.chance(15))
    s.decode.lookahead = {.window = draw.between(1, 4), .ngram = draw.between(2, 4), .guesses = draw.between(1, 3)};
  if (draw.chance(20)) {
    s.decode.grammar = random_grammar(seed, s.vocabulary);
    s.decode.logits = 0;
  }
  s.states = draw.chance(50);
  return s;
}

std::string Scenario::describe() const {
  std::string text = fmt::format(
      "seed {}: stages of {} ranks, strategy {}, policy {} --draft {}, guess cells {}, sequences {}, context {}, {} + {} tokens, "
      "temperature {:.2f}{}{}",
      seed, fmt::join(stages, "+"), static_cast<int>(decode.strategy), decode.policy.name, decode.policy.draft, decode.guess_cells,
      decode.sequences.end, decode.context, prompt, decode.generate, sampling.temperature, decode.cancel ? "" : ", no cancel",
      decode.continuous ? "" : ", not continuous");
  if (window > 0) text += fmt::format(", a window of {}", window);
  if (states) text += ", states";
  if (!decode.reuse_tree) text += ", anew at every acceptance";
  if (decode.lookup && decode.lookahead.on())
    text += fmt::format(", lookahead of {} by {}", decode.lookahead.window, decode.lookahead.ngram);
  else if (decode.lookup && decode.datastore)
    text += ", a datastore";
  else if (decode.lookup)
    text += decode.prompt_lookup > 0 ? fmt::format(", prompt lookup of {}", decode.prompt_lookup) : ", lookup";
  if (decode.cancel && decode.cancel_route == CancelRoute::kBackward) text += ", cancelled backward";
  if (decode.grammar) text += ", a grammar";
  if (!feature_layers.empty()) text += fmt::format(", features of {} layers", feature_layers.size());
  if (texts > 1) text += fmt::format(", {} texts", texts);
  for (const DraftHeads& h : draft_heads)
    text += fmt::format(", heads at place {} of {} layers ({:.2f} differs)", static_cast<int>(h.place), h.layers.size(), h.disagreement);
  for (const Drafter& d : drafters)
    text += fmt::format(", drafter on {} ranks{} ({:.2f} differs)", d.ranks, d.group ? " in a group" : "", d.disagreement);
  if (drafter_that_dies) text += fmt::format(", drafter {} dies", *drafter_that_dies);
  return text;
}

}  // namespace yamata::test
