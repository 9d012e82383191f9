#include "launch/program/planning/drafting_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace yamata {
namespace {

std::string in_ms(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

std::string drafting_verdict(const DraftingTimes& times, const DraftingStep& best) {
  std::string out =
      fmt::format("one token at a time: {} ms; drafting {} ({} {}, {:.2f} times as fast)\n", in_ms(times.token_s),
                  best.speedup > 1 ? "pays" : "does not pay", best.guesses, best.guesses == 1 ? "guess" : "guesses", best.speedup);
  const double offload = offload_token_s(times);
  if (offload <= 0) return out;
  const double others = std::min(best.token_s, times.token_s);
  return out + fmt::format("offloading, all weights copied to the device for each token: {} ms (copying {}, computing {}); it {}\n",
                           in_ms(offload), in_ms(times.load_s), in_ms(times.device_s), offload < others ? "pays" : "does not pay");
}

}  // namespace

double expected_tokens(double acceptance, int guesses) {
  return acceptance < 1 ? (1 - std::pow(acceptance, guesses + 1)) / (1 - acceptance) : guesses + 1.0;
}

std::vector<DraftingStep> drafting_steps(const DraftingTimes& times) {
  std::vector<DraftingStep> steps;
  for (const auto& [guesses, verify_s] : times.verify_s) {
    DraftingStep step{.guesses = guesses, .draft_s = times.draft_s * (times.at_once ? 1 : guesses), .verify_s = verify_s};
    step.compute_s = times.compute_s * (guesses + 1);
    step.memory_s = times.memory_s;
    const double smaller = std::min(step.compute_s, step.memory_s);
    step.overlap = smaller > 0 ? std::clamp((step.compute_s + step.memory_s - verify_s) / smaller, 0.0, 1.0) : 0;
    step.tokens = expected_tokens(times.acceptance, guesses);
    step.token_s = (step.draft_s + step.verify_s) / step.tokens;
    step.speedup = times.token_s / step.token_s;
    steps.push_back(step);
  }
  return steps;
}

double offload_token_s(const DraftingTimes& times) { return times.load_s > 0 ? std::max(times.load_s, times.device_s) : 0; }

std::string to_table(const DraftingTimes& times) {
  constexpr const char* kRow = "{:>7} {:>9} {:>10} {:>9} {:>9} {:>8} {:>12} {:>9} {:>8}\n";
  const std::vector<DraftingStep> steps = drafting_steps(times);
  std::string out =
      fmt::format(kRow, "guesses", "draft ms", "verify ms", "comp. ms", "mem. ms", "overlap", "tokens/step", "ms/token", "speedup");
  for (const DraftingStep& s : steps)
    out +=
        fmt::format(kRow, s.guesses, in_ms(s.draft_s), in_ms(s.verify_s), in_ms(s.compute_s), in_ms(s.memory_s),
                    fmt::format("{:.2f}", s.overlap), fmt::format("{:.2f}", s.tokens), in_ms(s.token_s), fmt::format("{:.2f}", s.speedup));
  return out + drafting_verdict(times, *std::ranges::max_element(steps, {}, &DraftingStep::speedup));
}

std::string to_json(const DraftingTimes& times) {
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const DraftingStep& s : drafting_steps(times))
    steps.push_back({{"guesses", s.guesses},
                     {"draft_s", s.draft_s},
                     {"verify_s", s.verify_s},
                     {"compute_s", s.compute_s},
                     {"memory_s", s.memory_s},
                     {"overlap", s.overlap},
                     {"tokens", s.tokens},
                     {"token_s", s.token_s},
                     {"speedup", s.speedup}});
  const nlohmann::ordered_json all{{"acceptance", times.acceptance},
                                   {"token_s", times.token_s},
                                   {"offload_token_s", offload_token_s(times)},
                                   {"steps", std::move(steps)}};
  return all.dump(2) + "\n";
}

}  // namespace yamata
