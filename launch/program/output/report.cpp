#include "launch/program/output/report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "node/counted.hpp"
#include "node/mib.hpp"
#include "src/speculation/run_shape.hpp"

namespace yamata {
namespace {

using Json = nlohmann::ordered_json;

const char* name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kInterrupted:
      return "interrupted";
    default:
      return "length";
  }
}

double ratio(std::uint64_t a, std::uint64_t b) { return b ? static_cast<double>(a) / static_cast<double>(b) : 0.0; }

/// The largest number of tokens that a stage of the target did not compute completely.
std::uint64_t tokens_skipped(const Generation& r) {
  std::uint64_t most = 0;
  for (const wire::Report& p : r.per_rank) most = std::max(most, p.role == "drafter" ? 0 : p.tokens_skipped);
  return most;
}

/// A time or a rate; null if it could not be measured.
Json measured(double value) { return value > 0 ? Json(value) : Json(); }

Json share(std::uint64_t part, std::uint64_t whole) { return whole > 0 ? Json(ratio(part, whole)) : Json(); }

/// Time by phase, of all ranks together: computing of drafts and heads, of the target, and what waits for data:
/// exchanges of ranks that share layers, and weights that are copied to devices.
struct Phases {
  double draft_s = 0, verify_s = 0, transfer_s = 0;
  double candidates_s = 0;              // of drafters and rank 0
  std::uint64_t device_peak_bytes = 0;  // of the rank with the most
};
Phases phases(const Generation& r) {
  Phases all;
  all.candidates_s = r.counters.candidates_s;
  for (const wire::Report& p : r.per_rank) {
    all.draft_s += p.draft_s;
    all.candidates_s += p.candidates_s;
    all.verify_s += std::max(0.0, p.busy_s - p.draft_s - p.exchange_s - p.copy_wait_s);
    all.transfer_s += p.exchange_s + p.copy_wait_s;
    all.device_peak_bytes = std::max(all.device_peak_bytes, p.device_peak_bytes);
  }
  return all;
}

/// A line with the time of each phase, and one for the memory of devices.
std::string phase_lines(const Generation& r) {
  const Phases all = phases(r);
  const auto part = [&](const char* name, double seconds) {
    const std::string of_verify = all.verify_s > 0 ? fmt::format(" ({:.2f} %)", 100 * seconds / all.verify_s) : "";
    return fmt::format("{} {:.3f} s{}", name, seconds, of_verify);
  };
  std::string out =
      fmt::format("computing, all ranks: verify {:.2f} s, draft {:.2f} s, transfer {:.2f} s\n", all.verify_s, all.draft_s, all.transfer_s);
  out += fmt::format("between runs (share of verify): {}, {}, {}, {}\n", part("candidates", all.candidates_s),
                     part("buffers", r.counters.buffers_s), part("posterior", r.counters.posterior_s), part("sampling", r.sample_s));
  for (std::size_t i = 0; i < r.per_rank.size(); ++i)
    if (const std::uint64_t peak = r.per_rank[i].device_peak_bytes; peak > 0)
      out += fmt::format("rank {} used at most {:.1f} MiB of its device's memory\n", i, mib(peak));
  for (std::size_t i = 0; i < r.per_rank.size(); ++i)
    if (const wire::Report& p = r.per_rank[i]; p.copied_bytes > 0)
      out += fmt::format("rank {} copied {:.1f} MiB of weights to its device, and waited {:.2f} s for them\n", i, mib(p.copied_bytes),
                         p.copy_wait_s);
  return out;
}

/// `steps`: number of steps with 1, 2, ... sequences.
Json mean_sequences(const std::vector<std::uint64_t>& steps) {
  std::uint64_t all = 0, sequences = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) all += steps[i], sequences += (i + 1) * steps[i];
  return share(sequences, all);
}

Json figures(const Generation& r) {
  const Speed s = speed(r);
  const std::size_t n = r.token_ids.size();
  const bool drafted = std::ranges::any_of(r.choices, [](const std::vector<Choice>& choices) { return !choices.empty(); });
  Json j;
  j["strategy"] = r.strategy;
  j["lossless"] = r.lossless;
  j["finish_reason"] = name(r.finish);
  j["ranks"] = r.per_rank.size();
  j["prompt_tokens"] = r.prompt_ids.size();
  j["generated_tokens"] = n;
  j["prefill_tokens_per_s"] = measured(s.prefill_tokens_per_s);
  j["decode_tokens_per_s"] = measured(s.decode_tokens_per_s);
  j["prompt_s"] = measured(r.prefill_s);
  j["first_token_s"] = measured(r.first_token_s);
  j["ttft_s"] = measured(s.ttft_s);
  j["itl_mean_s"] = measured(s.itl_mean_s);
  j["itl_p50_s"] = measured(s.itl_p50_s);
  j["itl_p99_s"] = measured(s.itl_p99_s);
  j["drafted"] = r.counters.drafted;
  j["accepted"] = r.counters.accepted;
  j["acceptance_rate"] = share(r.counters.accepted, r.counters.drafted);
  j["first_choice_rate"] = drafted ? Json(r.first_choice_rate) : Json();
  j["cost_coefficient"] = measured(r.counters.cost_coefficient);
  j["draft_budget"] = measured(static_cast<double>(r.counters.draft_budget));
  j["sequences_per_step"] = mean_sequences(r.counters.sequences);
  j["target_evaluations"] = r.counters.target_evaluations;
  j["tokens_per_target_run"] = share(n, r.counters.target_evaluations);
  j["runs_started"] = r.counters.runs_started;
  j["runs_cancelled"] = r.counters.runs_cancelled;
  j["tokens_skipped_by_cancellation"] = tokens_skipped(r);
  const Phases of_ranks = phases(r);
  j["verify_s"] = of_ranks.verify_s;
  j["draft_s"] = of_ranks.draft_s;
  j["transfer_s"] = of_ranks.transfer_s;
  j["sample_s"] = r.sample_s;
  j["candidates_s"] = of_ranks.candidates_s;
  j["buffers_s"] = r.counters.buffers_s;
  j["posterior_s"] = r.counters.posterior_s;
  j["device_peak_bytes"] = of_ranks.device_peak_bytes;
  j["head_us_per_token"] = n > 0 ? Json(1e6 * r.counters.deciding_s / static_cast<double>(n)) : Json();
  return j;
}

/// Per token, the guesses of the first drafter for its position: their draft probabilities, in descending order, and which one was
/// accepted.
Json choices(const Generation& r) {
  Json tokens = Json::array();
  for (std::size_t i = 0; i < r.choices.size(); ++i) {
    std::vector<Choice> choices = r.choices[i];
    std::stable_sort(choices.begin(), choices.end(),
                     [](const Choice& a, const Choice& b) { return a.draft_probability > b.draft_probability; });
    Json probabilities = Json::array(), accepted = nullptr;
    for (const Choice& choice : choices) {
      if (choice.token == r.token_ids[i]) accepted = probabilities.size();
      probabilities.push_back(std::round(1e4 * choice.draft_probability) / 1e4);
    }
    tokens.push_back({{"probabilities", std::move(probabilities)}, {"accepted", std::move(accepted)}});
  }
  return tokens;
}

/// When a rank's number of threads was measured; 0: it was not.
std::int64_t threads_measured_s(const Generation& r, std::size_t rank) {
  return rank < r.threads_measured_s.size() ? r.threads_measured_s[rank] : 0;
}

/// A line for each number of threads and minute of the measurement.
std::string measured_threads(const Generation& r) {
  std::map<std::string, std::vector<std::size_t>> ranks;
  for (std::size_t i = 0; i < r.per_rank.size(); ++i) {
    const std::time_t measured_s = threads_measured_s(r, i);
    if (measured_s == 0 || r.per_rank[i].role == "lost") continue;
    std::tm local{};
    localtime_r(&measured_s, &local);
    const int threads = r.per_rank[i].threads;
    ranks[fmt::format("{} thread{}, measured {:%H:%M}", threads, threads == 1 ? "" : "s", local)].push_back(i);
  }
  std::string out;
  for (const auto& [text, of] : ranks) {
    if (r.per_rank.size() > 1) out += fmt::format("rank{} {}: ", of.size() == 1 ? "" : "s", fmt::join(of, ", "));
    out += text + "\n";
  }
  return out;
}

/// The number of tokens and their rate; no rate if no time was measured.
std::string summary(const Generation& r) {
  const Speed s = speed(r);
  std::string out = fmt::format("\n{} of prompt at {:.1f} tokens/s, {} generated", counted(std::ssize(r.prompt_ids), "token"),
                                s.prefill_tokens_per_s, r.token_ids.size());
  if (s.decode_tokens_per_s > 0) out += fmt::format(" at {:.1f} tokens/s", s.decode_tokens_per_s);
  out += fmt::format(" ({}{})", r.strategy, r.lossless ? "" : ", typical acceptance: not lossless");
  if (r.finish == FinishReason::kInterrupted) out += ", interrupted";
  if (r.first_token_s > 0) out += fmt::format(", first after {:.1f} ms", 1e3 * r.first_token_s);
  if (s.ttft_s > 0) out += fmt::format(", second {:.1f} ms later", 1e3 * s.ttft_s);
  return out + "\n";
}

/// A line for each host with several ranks.
std::string shared_hosts(const std::vector<wire::Report>& ranks) {
  std::map<std::string, std::vector<std::string>> threads;
  for (const wire::Report& rank : ranks) {
    if (rank.role != "lost") threads[rank.host].push_back(fmt::format("{}", rank.threads));
  }
  std::string out;
  for (const auto& [host, of_ranks] : threads) {
    if (of_ranks.size() > 1)
      out += fmt::format("{} ranks share the cores of {}: {} threads\n", of_ranks.size(), host, fmt::join(of_ranks, "+"));
  }
  return out;
}

}  // namespace

std::string layers_text(LayerRange layers) { return layers.count() == 0 ? "-" : fmt::format("{}-{}", layers.begin, layers.end - 1); }

std::string held_layers(const wire::Report& rank) {
  return layers_text(rank.layers) + (rank.share < 1 ? fmt::format(" {:.0f}%", 100 * rank.share) : "");
}

double quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1) + 0.5)];
}

Speed speed(const Generation& r) {
  Speed s;
  if (r.prefill_s > 0) s.prefill_tokens_per_s = static_cast<double>(r.prompt_ids.size()) / r.prefill_s;
  const auto& t = r.token_times_s;
  if (t.size() < 2) return s;
  s.ttft_s = t[1];
  s.decode_tokens_per_s = static_cast<double>(t.size() - 1) / t.back();
  std::vector<double> gaps;
  for (std::size_t i = 1; i < t.size(); ++i) gaps.push_back(t[i] - t[i - 1]);
  s.itl_mean_s = t.back() / static_cast<double>(gaps.size());
  std::sort(gaps.begin(), gaps.end());
  s.itl_p50_s = quantile(gaps, 0.5);
  s.itl_p99_s = quantile(gaps, 0.99);
  return s;
}

std::string to_json(const Generation& r) {
  Json j = figures(r);
  j["steps_by_sequences"] = r.counters.sequences.empty() ? Json() : Json(r.counters.sequences);
  if (!r.layout_choice.empty()) {
    j["layout_choice"] = r.layout_choice;
    j["plan"] = Json::parse(r.plan_json);
  }
  j["prompt_token_ids"] = r.prompt_ids;
  j["token_ids"] = r.token_ids;
  if (!r.choices.empty()) j["choices"] = choices(r);
  j["text"] = r.text;
  j["model"] = {{"layers", r.model.layers}, {"width", r.model.dim}, {"vocabulary", r.model.vocabulary}};
  if (r.with_checksum) j["logits_checksum"] = fmt::format("{:016x}", r.logits_checksum);
  Json ranks = Json::array();
  for (std::size_t i = 0; i < r.per_rank.size(); ++i) {
    const wire::Report& p = r.per_rank[i];
    const std::time_t measured_s = threads_measured_s(r, i);
    ranks.push_back({{"rank", i},
                     {"host", p.host},
                     {"role", p.role},
                     {"layers", layers_text(p.layers)},
                     {"isa", p.isa},
                     {"threads", p.threads},
                     {"threads_measured", measured_s ? Json(fmt::format("{:%FT%TZ}", fmt::gmtime(measured_s))) : Json()},
                     {"device", p.device},
                     {"busy_s", p.busy_s},
                     {"wait_s", p.wait_s},
                     {"wait_cpu_s", p.wait_cpu_s},
                     {"share", p.share},
                     {"exchange_s", p.exchange_s},
                     {"copy_wait_s", p.copy_wait_s},
                     {"copied_bytes", p.copied_bytes},
                     {"draft_s", p.draft_s},
                     {"device_peak_bytes", p.device_peak_bytes},
                     {"runs", p.runs},
                     {"run_s", p.run_s},
                     {"runs_skipped", p.runs_skipped},
                     {"bytes_sent", p.bytes_sent},
                     {"fetched_bytes", p.fetched_bytes},
                     {"feature_bytes", p.feature_bytes},
                     {"rss_bytes", p.rss_bytes},
                     {"mapped_bytes", p.mapped_bytes}});
    if (!p.draft_run_s.empty()) ranks.back()["draft_run_s"] = p.draft_run_s;
  }
  j["per_rank"] = std::move(ranks);
  // Text may contain invalid UTF-8: it is replaced here, but not on stdout.
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_trace(const Generation& r) {
  using Kind = TraceEvent::Kind;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const wire::Report& p : r.per_rank) {
    for (const TraceEvent& e : p.events) first = std::min(first, e.begin_us);
  }
  Json events = Json::array();
  for (std::size_t rank = 0; rank < r.per_rank.size(); ++rank) {
    const wire::Report& p = r.per_rank[rank];
    events.push_back(
        {{"ph", "M"}, {"name", "process_name"}, {"pid", rank}, {"args", {{"name", fmt::format("rank {} {} ({})", rank, p.role, p.host)}}}});
    for (const TraceEvent& e : p.events) {
      const bool takes_time = e.end_us > e.begin_us && (e.kind == Kind::kRun || e.kind == Kind::kSkip || e.kind == Kind::kExchange);
      static constexpr const char* kNames[] = {"run", "skipped", "cancel", "commit", "exchange"};
      const char* name = kNames[static_cast<std::size_t>(e.kind)];
      Json event{{"ph", takes_time ? "X" : "i"},
                 {"name", e.kind == Kind::kExchange ? name : fmt::format("{} {}", name, e.run)},
                 {"cat", name},
                 {"pid", rank},
                 {"tid", e.draft ? 1 : 0},
                 {"ts", e.begin_us - first},
                 {"args", {{"run", e.run}, {"tokens", e.tokens}}}};
      takes_time ? event["dur"] = e.end_us - e.begin_us : event["s"] = "p";
      events.push_back(std::move(event));
    }
  }
  Json trace{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  for (const auto& [run, tree] : r.counters.trees) {
    const auto paths = paths_of(tree);
    trace["trees"].push_back({{"run", run}, {"tree", std::vector(paths.begin() + 1, paths.end())}});
  }
  return trace.dump() + "\n";
}

std::string to_csv(const Generation& r) {
  std::string header, row;
  const Json figure = figures(r);
  for (const auto& [key, value] : figure.items()) {
    header += (header.empty() ? "" : ",") + key;
    row += (row.empty() ? "" : ",") + (value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump());
  }
  return header + "\n" + row + "\n";
}

std::string to_table(const Generation& r) {
  if (r.token_ids.empty() && r.finish == FinishReason::kInterrupted) return "\ninterrupted before the first token\n";
  std::string out = summary(r);
  if (const auto& c = r.counters; c.drafted > 0) {
    out += fmt::format("speculation: {} of {} guesses accepted ({:.0f} %), {:.2f} tokens per useful run, {} of {} runs cancelled\n",
                       c.accepted, c.drafted, 100 * ratio(c.accepted, c.drafted), ratio(r.token_ids.size(), c.target_evaluations),
                       c.runs_cancelled, c.runs_started);
  }
  const auto named = [](const wire::Report& p) { return !p.device.empty() && p.device != "cpu"; };
  constexpr const char* kRow = "{:>4}  {:<20} {:<13} {:<9} {:<7} {:>7} {:>7} {:>7} {:>6} {:>8} {:>9} {:>8} {:>9}\n";
  out += fmt::format(kRow, "rank", "host", "role", "layers", "isa", "threads", "busy s", "wait s", "runs", "skipped", "sent KiB", "own MiB",
                     "model MiB");
  for (std::size_t i = 0; i < r.per_rank.size(); ++i) {
    const wire::Report& p = r.per_rank[i];
    const auto text = [](double number) { return fmt::format("{:.1f}", number); };
    const std::string layers = held_layers(p);
    out += fmt::format(kRow, i, p.host, p.role, layers, named(p) ? "-" : p.isa, p.threads, fmt::format("{:.2f}", p.busy_s),
                       fmt::format("{:.2f}", p.wait_s), p.runs, p.runs_skipped, text(1024 * mib(p.bytes_sent)), text(mib(p.rss_bytes)),
                       text(mib(p.mapped_bytes)));
  }
  for (std::size_t i = 0; i < r.per_rank.size(); ++i) {
    const wire::Report& p = r.per_rank[i];
    if (named(p)) out += fmt::format("rank {} computed on {} ({})\n", i, p.device, p.isa);
  }
  out += phase_lines(r);
  out += "own MiB: memory that only this process uses; model MiB: its part of the model files, which ranks of one host share\n";
  const auto exchanges = [](const wire::Report& p) { return p.exchange_s > 0; };
  if (std::any_of(r.per_rank.begin(), r.per_rank.end(), exchanges)) {
    out += "of busy s, exchanges of ranks that share layers:";
    for (const wire::Report& p : r.per_rank) out += fmt::format(" {:.2f}", p.exchange_s);
    out += " s\n";
  }
  const auto features = [](const wire::Report& p) { return p.feature_bytes > 0; };
  if (std::any_of(r.per_rank.begin(), r.per_rank.end(), features)) {
    out += "of sent KiB, hidden states for draft heads:";
    for (const wire::Report& p : r.per_rank) out += fmt::format(" {:.1f}", static_cast<double>(p.feature_bytes) / 1024);
    out += "\n";
  }
  if (!r.layout_choice.empty()) out += "layout: " + r.layout_choice + "\n";
  return out + measured_threads(r) + shared_hosts(r.per_rank) + r.split_advice;
}

}  // namespace yamata
