#include "launch/commands/run_options.hpp"

#include <fmt/format.h>

#include "launch/commands/idle_flags.hpp"
#include "launch/commands/presets.hpp"
#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

void add_acceptance_rule(cxxopts::Options& flags) {
  auto add = flags.add_options("Sampling");
  add("acceptance", "lossless, or typical: also accept guesses that are merely probable enough, which changes the text; for --temp above 0",
      value_or<std::string>("lossless"), "RULE");
  add("typical-epsilon", "typical: a probability that is always enough", value_or<Decimal<float>>("0.09"), "P");
  add("typical-delta", "typical: the share of e^-entropy that is enough if all tokens are improbable", value_or<Decimal<float>>("0.3"),
      "P");
}

/// Nothing: lossless.
std::optional<TypicalAcceptance> read_acceptance_rule(const cxxopts::ParseResult& r, const SamplingParams& sampling) {
  const auto rule = r["acceptance"].as<std::string>();
  require_word(rule, {"lossless", "typical"}, "--acceptance", "lossless or typical");
  if (rule == "lossless") return std::nullopt;
  require(sampling.temperature > 0, "--temp", "above 0 with --acceptance typical");
  TypicalAcceptance typical;
  typical.epsilon = number_of<float>(r, "typical-epsilon");
  typical.delta = number_of<float>(r, "typical-delta");
  require(typical.epsilon > 0 && typical.epsilon <= 1, "--typical-epsilon", "above 0 and at most 1");
  require(typical.delta > 0 && typical.delta <= 1, "--typical-delta", "above 0 and at most 1");
  return typical;
}

void read_strategy(const cxxopts::ParseResult& r, RunOptions& o) {
  const auto name = r["strategy"].as<std::string>();
  o.job.strategy = find_strategy(name);
  require_word(name, {"iterative", "speculative", "pipeinfer", "auto"}, "--strategy", "iterative, speculative, pipeinfer or auto");
  o.job.guesses_text = o.speculation.looks_up();
  const bool speculates = o.job.strategy && o.job.strategy != Strategy::kIterative;
  if (speculates && !o.job.guesses_text && !o.job.guesses())
    throw UsageError(fmt::format("--strategy {} with {} needs a draft model or heads; name one with -md FILE.gguf or --heads FILE", name,
                                 o.speculation.lookup ? "--policy chain" : "--no-lookup"));
}

}  // namespace

std::vector<std::string> RunOptions::inputs() const {
  std::vector<std::string> files = job.files();
  files.insert(files.end(), {text.file, speculation.tree_file});
  return files;
}

cxxopts::Options run_flags() {
  auto flags = describe("run", "Generate text from a prompt; text goes to stdout, statistics to stderr.");
  add_text(flags);
  flags.add_options("Text")("n,predict", "Tokens to generate", value_or<int>("128"), "N");
  add_sampling(flags);
  add_speculation(flags,
                  "iterative (no guessing), speculative or pipeinfer; the text is the same with each; without a draft the latter two guess "
                  "repeated text (auto: pipeinfer, on a single rank speculative, without any guess source iterative)",
                  "auto");
  add_draft_heads(flags);
  add_acceptance_rule(flags);
  flags.add_options("Baseline")("preset", "The setup of a paper, to compare with: " + presets_help(), cxxopts::value<std::string>(),
                                "NAME");
  add_context(flags, "0");
  add_cluster(flags, "on several machines the fastest layout, else by measured speed");
  flags.add_options("Output")("json", "Write results and statistics to this file", cxxopts::value<std::string>(), "FILE");
  flags.add_options("Output")("csv", "Write statistics as one CSV row with a header", cxxopts::value<std::string>(), "FILE");
  flags.add_options("Output")("trace", "Write a timeline of every rank in Chrome's trace format (open it in ui.perfetto.dev)",
                              cxxopts::value<std::string>(), "FILE");
  flags.add_options("Output")("logits-checksum", "Add a hash over the bits of the logits to the JSON");
  return flags;
}

RunOptions read_run(const cxxopts::ParseResult& r) {
  RunOptions o;
  o.job.model = read_model(r);
  o.text = read_text_source(r);
  o.json_file = text_of(r, "json");
  o.trace_file = text_of(r, "trace");
  o.csv_file = text_of(r, "csv");
  o.job.trace = !o.trace_file.empty();
  o.ignore_eos = given(r, "ignore-eos");
  o.logits_checksum = given(r, "logits-checksum");
  if (o.logits_checksum && o.json_file.empty()) throw UsageError("--logits-checksum goes into the JSON; name a file with --json FILE");
  o.speculation = read_speculation(r, o.job);
  read_draft_heads(r, o.job);
  read_cluster(r, o.job);
  o.job.plans_layout = true;
  o.job.generate = r["predict"].as<int>();
  require(o.job.generate >= 1, "-n", "at least 1");
  o.job.context = read_context_size(r);
  read_context(r, o.job);
  o.sampling = read_sampling(r);
  o.speculation.typical = read_acceptance_rule(r, o.sampling);
  read_strategy(r, o);
  read_preset(r, o);
  o.idle_flags = idle_flags(r, {.job = o.job, .speculation = o.speculation, .sampling = &o.sampling});
  o.fewer_drafts = given(r, "drafters") ? "fewer --drafters" : "a single -md";
  return o;
}

}  // namespace yamata
