#include "launch/commands/presets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "launch/program/options/unit_flags.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

enum class NeededSources { kAny, kNone, kText, kDraftHeads, kDraft, kOne };
enum class UnitPlacement {
  kAnywhere,
  kOne,      ///< one unit
  kSharing,  ///< units that share every layer
  kApart,    ///< the target on one unit, the guess source on another
  kPipeline  ///< several ranks, or a unit of its own for the guess source
};

/// The flags of chains: -pa, -ps, -pr, -pd, -np.
struct CutOffs {
  float accept, split, recovery, decay;
  int branches;
};

struct Preset {
  const char *name, *what;
  NeededSources needed_sources;
  UnitPlacement placement;
  std::optional<Strategy> strategy{};
  const char* policy = "";  ///< empty: as the flags say; "static-tree": of a --tree
  int draft = 0, depth = 0, children = 0, prompt_lookup = 0;
  LookaheadOptions lookahead{};
  ShareRule share_rule = ShareRule::kAdaptive;
  CancelRoute cancel_route = CancelRoute::kDirect;
  const char* units = "";  ///< example for kApart
  std::optional<CutOffs> cut_offs{};
  bool reuse_tree = false;  ///< guesses in flight remain when the text grows
  bool offload = false;     ///< with -ngl, or always if nothing guesses: as --offload
};

// Trees: Medusa's algorithm 1 with K = 4, m = 32, n = 64; W = 16, Ghidorah's fastest; EAGLE-2's, which Dovetail uses, with 10 branches,
// 8 levels, 15 guesses; a chain of first choices. Prompt lookup: its authors' 3 and 10. Lookahead: its authors' W, N and G. REST: its
// authors' 64 rows, 10 deep. SpecExec: its budget with an offloaded target. Cut-offs: those of PipeInfer's published scripts.
const std::array kPresets{Preset{.name = "sequential",
                                 .what = "one unit, one token at a time",
                                 .needed_sources = NeededSources::kNone,
                                 .placement = UnitPlacement::kOne,
                                 .strategy = Strategy::kIterative},
                          Preset{.name = "offload",
                                 .what = "a GPU, to which layers are copied for each token",
                                 .needed_sources = NeededSources::kNone,
                                 .placement = UnitPlacement::kAnywhere,
                                 .strategy = Strategy::kIterative,
                                 .offload = true},
                          Preset{.name = "prompt-lookup",
                                 .what = "guesses what followed an earlier passage of the text",
                                 .needed_sources = NeededSources::kText,
                                 .placement = UnitPlacement::kAnywhere,
                                 .strategy = Strategy::kSpeculative,
                                 .policy = "dynamic-tree",
                                 .draft = 10,
                                 .depth = 64,
                                 .children = 1,
                                 .prompt_lookup = 3},
                          Preset{.name = "rest",
                                 .what = "guesses what followed passages of a corpus, named with --datastore",
                                 .needed_sources = NeededSources::kText,
                                 .placement = UnitPlacement::kAnywhere,
                                 .strategy = Strategy::kSpeculative,
                                 .policy = "dynamic-tree",
                                 .draft = 63,
                                 .depth = 10,
                                 .children = 63},
                          Preset{.name = "lookahead",
                                 .what = "guesses n-grams that a window of guessed tokens has made",
                                 .needed_sources = NeededSources::kText,
                                 .placement = UnitPlacement::kAnywhere,
                                 .strategy = Strategy::kSpeculative,
                                 .policy = "dynamic-tree",
                                 .lookahead = {.window = 7, .ngram = 5, .guesses = 7}},
                          Preset{.name = "speculative",
                                 .what = "a chain of guesses, then a run that verifies it, in turns",
                                 .needed_sources = NeededSources::kDraft,
                                 .placement = UnitPlacement::kAnywhere,
                                 .strategy = Strategy::kSpeculative,
                                 .policy = "dynamic-tree",
                                 .draft = 4,
                                 .depth = 64,
                                 .children = 1},
                          Preset{.name = "specexec",
                                 .what = "a large tree of guesses, then a run that verifies it, in turns; with -ngl as --offload",
                                 .needed_sources = NeededSources::kDraft,
                                 .placement = UnitPlacement::kAnywhere,
                                 .strategy = Strategy::kSpeculative,
                                 .policy = "dynamic-tree",
                                 .draft = 128,
                                 .depth = 64,
                                 .children = 32,
                                 .offload = true},
                          Preset{.name = "medusa",
                                 .what = "one unit, a tree of guesses of draft heads in each run",
                                 .needed_sources = NeededSources::kDraftHeads,
                                 .placement = UnitPlacement::kOne,
                                 .strategy = Strategy::kSpeculative,
                                 .policy = "dynamic-tree",
                                 .draft = 63,
                                 .depth = 4,
                                 .children = 32},
                          Preset{.name = "medusa-em",
                                 .what = "as ghidorah, but by the speed of each unit alone",
                                 .needed_sources = NeededSources::kDraftHeads,
                                 .placement = UnitPlacement::kSharing,
                                 .strategy = Strategy::kSpeculative,
                                 .policy = "static-tree",
                                 .draft = 15,
                                 .share_rule = ShareRule::kIsolated},
                          Preset{.name = "ghidorah",
                                 .what = "a static tree of guesses of draft heads in each run; units share layers by their speeds when "
                                         "both compute",
                                 .needed_sources = NeededSources::kDraftHeads,
                                 .placement = UnitPlacement::kSharing,
                                 .strategy = Strategy::kSpeculative,
                                 .policy = "static-tree",
                                 .draft = 15,
                                 .share_rule = ShareRule::kTuned},
                          Preset{.name = "dovetail",
                                 .what = "the target on cores, heads or a draft on a GPU",
                                 .needed_sources = NeededSources::kOne,
                                 .placement = UnitPlacement::kApart,
                                 .strategy = Strategy::kSpeculative,
                                 .policy = "dynamic-tree",
                                 .draft = 15,
                                 .depth = 8,
                                 .children = 10,
                                 .units = "--units cpu --draft-units cuda:0"},
                          Preset{.name = "duodecoding",
                                 .what = "the target on a GPU, a draft on cores, at the same time",
                                 .needed_sources = NeededSources::kDraft,
                                 .placement = UnitPlacement::kApart,
                                 .strategy = Strategy::kPipeInfer,
                                 .policy = "multi-sequence",
                                 .draft = 32,
                                 .units = "--units cuda:0 --draft-units cpu"},
                          Preset{.name = "pipeinfer",
                                 .what = "chains of guesses in flight, one behind the other",
                                 .needed_sources = NeededSources::kDraft,
                                 .placement = UnitPlacement::kPipeline,
                                 .strategy = Strategy::kPipeInfer,
                                 .policy = "chain",
                                 .draft = 4,
                                 .cancel_route = CancelRoute::kBackward,
                                 .cut_offs = CutOffs{.accept = 0.001f, .split = 0.8f, .recovery = 0.4f, .decay = 0.01f, .branches = 3},
                                 .reuse_tree = true}};

const Preset& find_preset(const std::string& name) {
  const auto found = std::ranges::find_if(kPresets, [&](const Preset& preset) { return preset.name == name; });
  if (found != kPresets.end()) return *found;
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  throw UsageError(fmt::format("--preset: '{}' is not a preset; presets are {}", name, fmt::join(names, ", ")));
}

void require_guessers(const Preset& preset, const JobOptions& job) {
  if (preset.needed_sources == NeededSources::kNone && job.models.guess())
    throw UsageError(fmt::format("--preset {} guesses nothing; leave out -md, --heads and --mtp", preset.name));
  if (preset.needed_sources == NeededSources::kText && job.models.guess())
    throw UsageError(fmt::format("--preset {} guesses from the text alone; leave out -md, --heads and --mtp", preset.name));
  if (preset.needed_sources == NeededSources::kDraftHeads && (job.models.draft_heads.empty() || !job.models.drafts.empty()))
    throw UsageError(fmt::format(
        "--preset {} guesses with heads alone; name them with --heads FILE, or take the model's own with --mtp, without -md{}", preset.name,
        preset.placement == UnitPlacement::kSharing ? ", or share layers by --units alone, without a preset" : ""));
  if (preset.needed_sources == NeededSources::kDraft && (job.models.drafts.empty() || !job.models.draft_heads.empty()))
    throw UsageError(
        fmt::format("--preset {} guesses with a draft model; name it with -md FILE.gguf, without --heads or --mtp", preset.name));
  if (preset.needed_sources == NeededSources::kOne && job.models.drafts.empty() == job.models.draft_heads.empty())
    throw UsageError(fmt::format("--preset {} guesses with heads or with a draft model; name one with --heads FILE, --mtp or -md FILE.gguf",
                                 preset.name));
}

void require_units(const Preset& preset, const JobOptions& job) {
  if (preset.placement == UnitPlacement::kOne && job.compute.units.size() > 1)
    throw UsageError(fmt::format("--preset {} is one unit; name one with --units, or leave it out", preset.name));
  if (preset.placement == UnitPlacement::kOne && job.compute.gpu_layers.value_or(0) > 0)
    throw UsageError(fmt::format("--preset {} is one unit, and -ngl {} makes two of them; leave out -ngl", preset.name,
                                 gpu_layers_text(*job.compute.gpu_layers)));
  if (preset.placement == UnitPlacement::kSharing && (job.compute.units.size() < 2 || job.compute.units.front().share))
    throw UsageError(fmt::format("--preset {} shares layers among units; name two with --units, without shares", preset.name));
  if (preset.placement == UnitPlacement::kSharing && job.compute.gpu_layers)
    throw UsageError(fmt::format("--preset {} shares every layer among units; leave out -ngl", preset.name));
  if (preset.share_rule == ShareRule::kIsolated && job.compute.attention_cut != AttentionCut::kHeads)
    throw UsageError(fmt::format("--preset {} has no moving boundary, which is ghidorah's; leave out --attention-cut", preset.name));
  if (preset.placement == UnitPlacement::kApart &&
      (job.compute.draft_units.empty() || (job.compute.units.empty() && !job.compute.gpu_layers)))
    throw UsageError(
        fmt::format("--preset {} is {}; say which with --units and --draft-units, as in {}", preset.name, preset.what, preset.units));
}

/// A preset that guesses without a model has one way to do it: prompt lookup, a datastore or lookahead decoding.
void require_texts(const GivenFlags& r, const Preset& preset, const SpeculationOptions& speculation) {
  if (preset.needed_sources != NeededSources::kText) return;
  const bool prompt = preset.prompt_lookup > 0, window = preset.lookahead.on(), corpus = !prompt && !window;
  if (!r.given("no-lookup") && speculation.looks_up() && (speculation.prompt_lookup > 0) == prompt &&
      speculation.lookahead.on() == window && !speculation.datastore.empty() == corpus)
    return;
  if (prompt)
    throw UsageError(fmt::format(
        "--preset {} guesses from the text; leave out --no-lookup, --datastore, --lookahead, --policy chain and --prompt-lookup 0",
        preset.name));
  if (window)
    throw UsageError(fmt::format(
        "--preset {} guesses from its window; leave out --no-lookup, --datastore, --prompt-lookup and --policy chain", preset.name));
  throw UsageError(
      fmt::format("--preset {} guesses from a corpus; name one with --datastore FILE, which yamata tokenize --datastore FILE has written, "
                  "without --no-lookup, --prompt-lookup, --lookahead and --policy chain",
                  preset.name));
}

/// A static tree is of the heads and units that use it. It is only built in if the user says so.
void require_tree(const Preset& preset, const GivenFlags& r, const JobOptions& job, const PolicyOptions& policy) {
  if (std::string(preset.policy) != "static-tree" || policy.tree || r.given("policy")) return;
  const std::string model = fmt::format("-m {} {}", job.models.target, r.given("mtp") ? "--mtp" : "--heads " + r.joined("heads"));
  const bool paper = preset.share_rule == ShareRule::kTuned && !r.given("attention-cut");  // the moving boundary
  const std::string cut = paper                      ? " --attention-cut dynamic"
                          : r.given("attention-cut") ? " --attention-cut " + r.text("attention-cut")
                                                     : "";
  throw UsageError(
      fmt::format("--preset {} guesses with the best tree for these heads and units; find it with 'yamata acceptance {} --no-lookup "
                  "--policy dynamic-tree --draft 63 -f PROMPTS.jsonl --json rates.json', then 'yamata profile {} --units {}{} --tree-from "
                  "rates.json --tree-out tree.json', and add --tree tree.json",
                  preset.name, model, model, r.text("units"), cut));
}

/// Whether the guesses have a pipeline only on several ranks.
bool wants_ranks(const Preset& preset, const JobOptions& job) {
  return preset.placement == UnitPlacement::kPipeline && job.compute.draft_units.empty();
}

/// Sets a value of the preset if its flag is not given.
template <class Value, class Of>
void say(const GivenFlags& r, const char* flag, Value& value, const Of& of) {
  if (!r.given(flag)) value = of;
}

void say_cut_offs(const GivenFlags& r, PolicyOptions& policy, const CutOffs& cut_offs) {
  policy.at_any_cost = true;
  say(r, "p-accept", policy.accept, cut_offs.accept);
  say(r, "p-split", policy.split, cut_offs.split);
  say(r, "p-recovery", policy.recovery, cut_offs.recovery);
  say(r, "p-decay", policy.decay, cut_offs.decay);
  say(r, "parallel", policy.branches, cut_offs.branches);
}

}  // namespace

std::vector<std::string> preset_warnings(const GivenFlags& r, const JobOptions& job) {
  const std::string name = r.text("preset");
  if (name.empty() || find_preset(name).placement != UnitPlacement::kApart) return {};
  const bool device = std::ranges::any_of(job.compute.units, &UnitSpec::device) || job.compute.gpu_layers.value_or(0) > 0 ||
                      std::ranges::any_of(job.compute.draft_units, &UnitSpec::device);
  if (device) return {};
  return {
      fmt::format("--preset {} has no GPU among its units, unlike the paper's machine; name one, as in {}", name, find_preset(name).units)};
}

std::string presets_help() {
  std::vector<std::string> all;
  for (const Preset& preset : kPresets) all.push_back(fmt::format("{} ({})", preset.name, preset.what));
  return fmt::format("{}", fmt::join(all, ", "));
}

PolicyDefaults preset_policy(const GivenFlags& r) {
  const std::string name = r.text("preset");
  if (name.empty()) return {};
  const Preset& preset = find_preset(name);
  const bool takes_tree = preset.needed_sources == NeededSources::kDraftHeads && r.given("tree");
  return {takes_tree ? "static-tree" : preset.policy, preset.draft};
}

bool read_preset(const GivenFlags& r, JobOptions& job, SpeculationOptions& speculation) {
  const std::string name = r.text("preset");
  if (name.empty()) return false;
  const Preset& preset = find_preset(name);
  require_units(preset, job);
  require_guessers(preset, job);
  job.compute.share_rule = preset.share_rule;
  const bool copies = job.compute.gpu_layers.value_or(0) > 0 || preset.needed_sources == NeededSources::kNone;
  set_offload(job.compute, "--preset " + name, preset.offload && copies);
  if (preset.strategy && r.given("strategy") && job.layout.strategy != preset.strategy)
    throw UsageError(
        fmt::format("--preset {} is --strategy {}; leave --strategy out, or choose another preset", name, strategy_name(*preset.strategy)));
  if (preset.strategy) job.layout.strategy = preset.strategy;
  if (*preset.policy) {
    PolicyOptions& policy = speculation.policy;
    require_tree(preset, r, job, policy);
    if (preset.depth > 0) say(r, "tree-depth", policy.depth, preset.depth), say(r, "tree-children", policy.children, preset.children);
    if (preset.cut_offs) say_cut_offs(r, policy, *preset.cut_offs);
    say(r, "prompt-lookup", speculation.prompt_lookup, preset.prompt_lookup);
    if (preset.lookahead.on()) say(r, "lookahead", speculation.lookahead, preset.lookahead);
    speculation.lookup = preset.needed_sources == NeededSources::kText;  // no paper uses suffixes
    speculation.reuse_tree &= preset.reuse_tree;
    say(r, "cancel-route", speculation.cancel_route, preset.cancel_route);
  }
  require_texts(r, preset, speculation);
  job.layout.guesses_text = speculation.looks_up() && preset.needed_sources != NeededSources::kNone;
  return wants_ranks(preset, job);
}

}  // namespace yamata
