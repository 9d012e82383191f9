#include "launch/commands/measured_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "node/error.hpp"

namespace yamata {
namespace {

void check(bool right, const char* what) {
  if (!right) throw ModelError(what);
}

/// Milliseconds of runs of 1, 2, ... rows; 0: none was computed.
using Times = std::vector<double>;

Times times_of(const nlohmann::json& rank, const char* key = "run_s") {
  Times times;
  for (const nlohmann::json& s : rank.at(key)) {
    times.push_back(1e3 * s.get<double>());
    check(times.back() >= 0 && times.back() <= 1e9, "'run_s' or 'draft_run_s' has an invalid time");
  }
  return times;
}

/// The widths that all ranks have computed, and the sum of the ranks' times for each.
std::vector<simulation::WidthTime> common_widths(const std::vector<Times>& of_ranks) {
  std::vector<simulation::WidthTime> points;
  for (std::size_t w = 0; !of_ranks.empty() && w < of_ranks[0].size(); ++w) {
    simulation::WidthTime point{w + 1, 0};
    const bool all = std::all_of(of_ranks.begin(), of_ranks.end(), [w](const Times& rank) { return w < rank.size() && rank[w] > 0; });
    for (const Times& rank : of_ranks) point.time += all ? rank[w] : 0;
    if (all) points.push_back(point);
  }
  return points;
}

/// The ranks that hold the target's layers.
struct StageRanks {
  std::vector<Times> times;
  std::vector<double> computing;  // per rank: share of its time without exchanges
  std::string layers;             // of the last rank
};

void add_stage(const nlohmann::json& rank, StageRanks& stages, MeasuredRun& run) {
  const std::string layers = rank.value("layers", "");
  const bool joins = rank.value("share", 1.0) < 1 && !stages.times.empty() && layers == stages.layers;
  joins ? void(++run.groups.back()) : run.groups.push_back(1);
  stages.layers = layers;
  stages.times.push_back(times_of(rank));
  const double exchange_s = rank.value("exchange_s", 0.0), busy_s = rank.value("busy_s", 0.0);
  check(exchange_s >= 0 && exchange_s <= busy_s, "'exchange_s' is not between 0 and 'busy_s'");
  stages.computing.push_back(exchange_s > 0 ? 1 - exchange_s / busy_s : 1);
}

void read_stages(const StageRanks& ranks, MeasuredRun& run) {
  const std::vector<Times>& stages = ranks.times;
  const std::vector<simulation::WidthTime> points = common_widths(stages);
  const Times totals = times_by_width(points);
  check(!totals.empty(), "it measured too few runs; make one with more tokens");
  for (std::size_t s = 0; s < stages.size(); ++s) {
    run.stage_ms.push_back(stages[s][points[0].rows - 1] * totals[0] / points[0].time);
    run.exchange_ms.push_back((1 - ranks.computing[s]) * run.stage_ms.back());
    run.computing_ms += run.stage_ms.back() - run.exchange_ms.back();
  }
  if (totals.size() > 1) run.width = simulation::WidthCost(totals);
}

/// The mean over the drafters that have computed.
void read_drafters(const std::vector<std::vector<Times>>& drafters, MeasuredRun& run) {
  double sum = 0, measured = 0;
  for (const auto& ranks : drafters) {
    const Times totals = times_by_width(common_widths(ranks));
    if (totals.empty()) continue;
    sum += totals[0];
    ++measured;
    if (totals.size() > 1) run.draft_width = simulation::WidthCost(totals);
  }
  run.drafters = static_cast<int>(drafters.size());
  if (measured > 0) run.draft_ms = sum / measured;
}

void read_ranks(const nlohmann::json& j, MeasuredRun& run) {
  StageRanks stages;
  std::vector<std::vector<Times>> drafters;
  Times on_head;  // of a draft that shares the first stage's unit
  for (const nlohmann::json& rank : j.at("per_rank")) {
    const std::string role = rank.at("role");
    if (role == "idle") continue;
    ++run.ranks;
    if (role == "lost") continue;
    run.draft_heads = run.draft_heads || rank.value("feature_bytes", 0.0) > 0;
    if (role != "drafter") {
      add_stage(rank, stages, run);
      if (rank.contains("draft_run_s")) on_head = times_of(rank, "draft_run_s");
      continue;
    }
    // If a draft model is on several ranks, the first one has its first layers.
    if (drafters.empty() || rank.value("layers", "0-").starts_with("0-")) drafters.emplace_back();
    drafters.back().push_back(times_of(rank));
  }
  read_stages(stages, run);
  if (!on_head.empty()) drafters.push_back({on_head});
  read_drafters(drafters, run);
}

std::vector<std::int32_t> token_ids(const nlohmann::json& ids) {
  std::vector<std::int32_t> tokens;
  for (const nlohmann::json& id : ids) {
    const std::int64_t number = id.is_number_integer() ? id.get<std::int64_t>() : -1;
    check(number >= 0 && number <= std::numeric_limits<std::int32_t>::max(), "it has an invalid token id");
    tokens.push_back(static_cast<std::int32_t>(number));
  }
  return tokens;
}

simulation::Recording::Choices choices_of(const nlohmann::json& token) {
  constexpr std::size_t kMaxGuesses = 64;
  simulation::Recording::Choices choices{token.at("probabilities").get<std::vector<float>>(), {}};
  const auto& draft_probabilities = choices.draft_probabilities;
  const bool shares = std::all_of(draft_probabilities.begin(), draft_probabilities.end(), [](float p) { return p >= 0 && p <= 1; });
  check(shares && draft_probabilities.size() <= kMaxGuesses && std::is_sorted(draft_probabilities.rbegin(), draft_probabilities.rend()),
        "'choices' has invalid probabilities");
  if (token.at("accepted").is_null()) return choices;
  const auto place = token.at("accepted").get<std::int64_t>();
  check(place >= 0 && place < static_cast<std::int64_t>(draft_probabilities.size()),
        "'choices' has an accepted guess without a draft probability");
  choices.accepted = static_cast<std::size_t>(place);
  return choices;
}

simulation::Recording read_text_of(const nlohmann::json& j) {
  simulation::Recording text;
  if (!j.contains("prompt_token_ids")) return text;
  text.prompt = token_ids(j.at("prompt_token_ids"));
  text.tokens = token_ids(j.at("token_ids"));
  check(!text.prompt.empty(), "its prompt is empty");
  if (!j.contains("choices")) return text;
  for (const nlohmann::json& token : j.at("choices")) text.choices.push_back(choices_of(token));
  check(text.choices.size() == text.tokens.size(), "it does not have as many 'choices' as tokens");
  return text;
}

}  // namespace

MeasuredRun parse_measured_run(const std::string& text, const std::string& path) {
  const auto j = nlohmann::json::parse(text, nullptr, false);
  MeasuredRun run;
  try {
    run.strategy = j.value("strategy", "iterative");
    check(!j.at("head_us_per_token").is_null(), "it generated no text; make a run of a hundred tokens or more");
    run.head_ms = j.at("head_us_per_token").get<double>() / 1e3;
    check(run.head_ms >= 0 && run.head_ms <= 1e9, "'head_us_per_token' is no time");
    if (j.contains("first_choice_rate") && !j.at("first_choice_rate").is_null())
      run.first_choice_rate = std::clamp(j.at("first_choice_rate").get<double>(), 0.0, 1.0);
    if (j.contains("decode_tokens_per_s") && !j.at("decode_tokens_per_s").is_null())
      run.tokens_per_s = j.at("decode_tokens_per_s").get<double>();
    read_ranks(j, run);
    if (j.contains("model")) {
      const nlohmann::json& model = j.at("model");
      run.layers = model.at("layers").get<int>();
      run.widths.hidden = model.at("width").get<std::int64_t>();
      run.widths.vocabulary = model.at("vocabulary").get<std::int64_t>();
    }
    run.text = read_text_of(j);
  } catch (const nlohmann::json::exception&) {
    throw ModelError(fmt::format("{} is not the result of a run; 'yamata run --json FILE' writes one", path));
  } catch (const ModelError& error) {
    throw ModelError(fmt::format("{}: {}", path, error.what()));
  }
  return run;
}

}  // namespace yamata
