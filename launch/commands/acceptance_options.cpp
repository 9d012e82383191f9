#include "launch/commands/acceptance_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "launch/commands/idle_flags.hpp"
#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"
#include "launch/program/options/tree_file.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

/// The guesses of a tree's deepest path.
int depth_of(const StaticTree& tree) { return std::ranges::max_element(tree.nodes, {}, &StaticTree::Node::level)->level + 1; }

/// What is given but --tree.
GivenFlags without_tree(const GivenFlags& r) {
  const Flags flags = acceptance_flags();
  GivenFlags others(flags);
  for (const Flag& flag : flags.all()) {
    if (flag.name == "tree") continue;
    for (const std::string& value : r.all(flag.name)) others.add(flag, value);
  }
  return others;
}

/// With --tree, so many guesses are recorded as its largest tree needs, unless flags say otherwise; with --policy static-tree, those of a
/// single tree.
SpeculationOptions read_recording(const GivenFlags& r) {
  const std::string file = r.text("tree"), policy = r.text("policy");
  if (file.empty() || (policy != "auto" && policy != "dynamic-tree")) return read_speculation(r);
  const std::vector<StaticTree> trees = read_all_trees(file);
  const int guesses = std::ranges::max_element(trees, {}, &StaticTree::width)->width() - 1;
  SpeculationOptions speculation = read_speculation(without_tree(r), {.policy = "dynamic-tree", .draft = guesses});
  speculation.tree_file = file;
  require(speculation.policy.draft >= guesses, "--draft", fmt::format("at least {}, for the largest tree of --tree", guesses).c_str());
  for (const StaticTree& tree : trees) {
    if (!r.given("tree-depth")) speculation.policy.depth = std::max(speculation.policy.depth, depth_of(tree));
  }
  return speculation;
}

}  // namespace

Flags acceptance_flags() {
  auto flags = describe("acceptance", "Measures how often each guess source is right, by distance, on text that the model generates.");
  auto text = flags.group("Text");
  text("-f, --file",
       "Prompts, one per line of JSON: its \"prompt\", \"text\", first of \"turns\", \"question\", or \"instruction\" and \"input\"",
       FlagKind::kFile, "FILE.jsonl");
  add_prompt_format(flags);
  text("--categories", "Use only prompts whose \"category\" is one of these, such as math,coding", FlagKind::kText, "LIST");
  text("--prompts", "Use the first N prompts (0: all)", FlagKind::kInt, "N", "0");
  text("--pre", "Force a pre-tokenizer by name", FlagKind::kText, "NAME");
  text("-n, --predict", "Tokens to generate after each prompt", FlagKind::kInt, "N", "128");
  text("--levels", "Maximum distance in tokens", FlagKind::kInt, "N", "8");
  add_sampling(flags);
  add_speculation(flags, "", "auto", {"--strategy", "--suffix-store"});
  add_draft_heads(flags);
  add_context(flags, "0");
  add_cluster(flags);
  flags.group("Output")("--json", "Write all rates to this file, which --tree reads", FlagKind::kFile, "FILE");
  return flags;
}

AcceptanceOptions read_acceptance(const GivenFlags& r) {
  AcceptanceOptions o;
  o.job.models.target = read_model(r);
  o.prompts_file = r.text("file");
  if (o.prompts_file.empty()) throw UsageError("no prompts given; name a file with -f FILE.jsonl");
  o.prompt_format = read_prompt_format(r);
  if (r.given("categories")) o.categories = split_list(r.text("categories"));
  require(std::ranges::count(o.categories, "") == 0, "--categories", "names of categories, such as math,coding");
  o.most_prompts = r.number<int>("prompts");
  require(o.most_prompts >= 0, "--prompts", "0 or more");
  o.pre_tokenizer = r.text("pre");
  o.json_file = r.text("json");
  read_drafts(r, o.job);
  o.speculation = read_recording(r);
  read_draft_heads(r, o.job.models);
  require(r.text("strategy") == "auto", "--strategy", "left out: no guess is sent");
  require(o.speculation.suffix_store.empty(), "--suffix-store", "left out: text of earlier jobs would count as guessed");
  require(o.speculation.datastore.empty(), "--datastore", "left out: only run guesses from it");
  require(!o.speculation.lookahead.on(), "--lookahead", "left out: only run computes its window");
  if (!o.job.models.guess() && !o.speculation.lookup)
    throw UsageError(
        "there is no guess source; name a draft model with -md FILE.gguf or heads with --heads FILE, or leave --no-lookup out");
  read_cluster(r, o.job);
  o.job.layout.strategy = Strategy::kSpeculative;
  o.job.layout.guesses_text = o.speculation.lookup;
  o.job.needs_drafters = true;
  o.generate = r.number<int>("predict");
  require(o.generate >= 1, "-n", "at least 1");
  o.levels = r.number<int>("levels");
  require(o.levels >= 1 && o.levels <= 32, "--levels", "between 1 and 32");
  read_context(r, o.job.cache);
  o.sampling = read_sampling(r);
  o.idle_flags = idle_flags(r, {.models = o.job.models, .layout = o.job.layout, .speculation = o.speculation, .sampling = &o.sampling});
  return o;
}

}  // namespace yamata
