#include "launch/commands/run_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "launch/commands/idle_flags.hpp"
#include "launch/commands/presets.hpp"
#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

void add_acceptance_rule(Flags& flags) {
  auto add = flags.group("Sampling");
  add("--acceptance",
      "lossless, or typical: also accept guesses that are merely probable enough, which changes the text; for --temp above 0",
      FlagKind::kWord, "RULE", "lossless");
  add("--typical-epsilon", "typical: a probability that is always enough", FlagKind::kFloat, "P", "0.09");
  add("--typical-delta", "typical: the share of e^-entropy that is enough if all tokens are improbable", FlagKind::kFloat, "P", "0.3");
}

/// Nothing: lossless.
std::optional<TypicalAcceptance> read_acceptance_rule(const GivenFlags& r, const SamplingParams& sampling) {
  const auto rule = r.text("acceptance");
  require_word(rule, {"lossless", "typical"}, "--acceptance", "lossless or typical");
  if (rule == "lossless") return std::nullopt;
  require(sampling.temperature > 0, "--temp", "above 0 with --acceptance typical");
  TypicalAcceptance typical;
  typical.epsilon = r.number<float>("typical-epsilon");
  typical.delta = r.number<float>("typical-delta");
  require(typical.epsilon > 0 && typical.epsilon <= 1, "--typical-epsilon", "above 0 and at most 1");
  require(typical.delta > 0 && typical.delta <= 1, "--typical-delta", "above 0 and at most 1");
  return typical;
}

void add_schema(Flags& flags) {
  auto add = flags.group("Text");
  add("--json-schema", "Only text that is valid JSON for the schema in this file", FlagKind::kFile, "FILE");
  add("--schema-after", "With --json-schema: any text may come first, up to and including TEXT, such as '</think>'", FlagKind::kText,
      "TEXT");
}

void read_schema(const GivenFlags& r, RunOptions& o) {
  o.schema_file = r.text("json-schema");
  o.schema.trigger = r.text("schema-after");
  if (o.schema_file.empty() && !o.schema.trigger.empty())
    throw UsageError("--schema-after needs a schema; name one with --json-schema FILE");
  if (!o.schema_file.empty() && o.ignore_eos)
    throw UsageError("--ignore-eos with --json-schema: the schema says where the text ends; leave it out");
}

void read_strategy(const GivenFlags& r, RunOptions& o) {
  const auto name = r.text("strategy");
  o.job.layout.strategy = find_strategy(name);
  require_word(name, {"iterative", "speculative", "pipeinfer", "auto"}, "--strategy", "iterative, speculative, pipeinfer or auto");
  o.job.layout.guesses_text = o.speculation.looks_up();
  const bool speculates = o.job.layout.strategy && o.job.layout.strategy != Strategy::kIterative;
  if (speculates && !o.job.layout.guesses_text && !o.job.models.guess())
    throw UsageError(fmt::format("--strategy {} with {} needs a draft model or heads; name one with -md FILE.gguf or --heads FILE", name,
                                 o.speculation.lookup ? "--policy chain" : "--no-lookup"));
}

/// The window of lookahead decoding moves only if a run has the whole of it: that is what the flags default to, and what others may not
/// cut.
void read_window(const GivenFlags& r, const ModelFiles& models, SpeculationOptions& speculation) {
  const LookaheadOptions& lookahead = speculation.lookahead;
  if (!lookahead.on()) return;
  PolicyOptions& policy = speculation.policy;
  require(policy.name == "dynamic-tree", "--lookahead", "used with --policy dynamic-tree, as --preset lookahead does");
  require(!models.guess(), "--lookahead", "used without -md, --heads and --mtp, whose guesses would take the place of its window");
  if (!r.given("draft")) policy.draft = lookahead.nodes();
  if (!r.given("tree-depth")) policy.depth = LookaheadOptions::kMost;
  if (!r.given("tree-children")) policy.children = LookaheadOptions::kMost;
  const auto whole = [&](int least) { return fmt::format("at least {} with this --lookahead, or its window is never whole", least); };
  require(policy.draft >= lookahead.nodes(), "--draft", whole(lookahead.nodes()).c_str());
  require(policy.depth >= lookahead.depth(), "--tree-depth", whole(lookahead.depth()).c_str());
  require(policy.children >= lookahead.children(), "--tree-children", whole(lookahead.children()).c_str());
}

}  // namespace

std::vector<std::string> RunOptions::inputs() const {
  std::vector<std::string> files = job.models.all();
  files.insert(files.end(), {text.file, speculation.tree_file, speculation.datastore, schema_file});
  return files;
}

Flags run_flags() {
  auto flags = describe("run", "Generate text from a prompt; text goes to stdout, statistics to stderr.");
  add_text(flags);
  flags.group("Text")("--chat", "The text is a message: wrap it in the model's chat template, as launch/serve does");
  flags.group("Text")("-n, --predict", "Tokens to generate; -1: until the context is full", FlagKind::kInt, "N", "128");
  flags.group("Text")("--stop", "End the text before this one; repeatable", FlagKind::kText, "TEXT");
  add_schema(flags);
  add_sampling(flags);
  add_speculation(flags,
                  "iterative (no guessing), speculative or pipeinfer; the text is the same with each; without a draft the latter two guess "
                  "repeated text (auto: pipeinfer, on a single rank speculative, without any guess source iterative)",
                  "auto");
  add_draft_heads(flags);
  add_acceptance_rule(flags);
  flags.group("Baseline")("--preset", "The setup of a paper, to compare with: " + presets_help(), FlagKind::kWord, "NAME");
  add_context(flags, "0");
  add_cluster(flags, "on several machines the fastest layout, else by measured speed");
  flags.group("Output")("--json", "Write results and statistics to this file", FlagKind::kFile, "FILE");
  flags.group("Output")("--csv", "Write statistics as one CSV row with a header", FlagKind::kFile, "FILE");
  flags.group("Output")("--trace", "Write a timeline of every rank in Chrome's trace format (open it in ui.perfetto.dev)", FlagKind::kFile,
                        "FILE");
  flags.group("Output")("--logits-checksum", "Add a hash over the bits of the logits to the JSON");
  return flags;
}

RunOptions read_run(const GivenFlags& r) {
  RunOptions o;
  o.job.models.target = read_model(r);
  o.text = read_text_source(r);
  o.json_file = r.text("json");
  o.trace_file = r.text("trace");
  o.csv_file = r.text("csv");
  o.job.trace = !o.trace_file.empty();
  o.chat = r.given("chat");
  if (r.given("stop")) o.stops = r.all("stop");
  require(std::ranges::find(o.stops, "") == o.stops.end(), "--stop", "a text that is not empty");
  o.ignore_eos = r.given("ignore-eos");
  o.logits_checksum = r.given("logits-checksum");
  read_schema(r, o);
  if (o.logits_checksum && o.json_file.empty()) throw UsageError("--logits-checksum goes into the JSON; name a file with --json FILE");
  read_drafts(r, o.job);
  o.speculation = read_speculation(r, preset_policy(r));
  read_draft_heads(r, o.job.models);
  read_cluster(r, o.job);
  o.job.layout.planned = true;
  o.generate = r.number<int>("predict");
  require(o.generate >= 1 || o.generate == -1, "-n", "at least 1, or -1 for all that the context has room for");
  if (o.generate == -1) o.generate = std::numeric_limits<int>::max();
  read_context(r, o.job.cache);
  o.sampling = read_sampling(r);
  o.speculation.typical = read_acceptance_rule(r, o.sampling);
  read_strategy(r, o);
  o.wants_ranks = read_preset(r, o.job, o.speculation);
  read_window(r, o.job.models, o.speculation);
  o.idle_flags = idle_flags(r, {.models = o.job.models, .layout = o.job.layout, .speculation = o.speculation, .sampling = &o.sampling});
  std::ranges::copy(preset_warnings(r, o.job), std::back_inserter(o.idle_flags));
  o.fewer_drafts = r.given("drafters") ? "fewer --drafters" : "a single -md";
  return o;
}

}  // namespace yamata
