#include "launch/commands/profile_options.hpp"

#include <fmt/format.h>

#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"
#include "launch/program/options/unit_flags.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr char kGroup[] = "Profile";

/// --tree-from and what belongs to it.
void read_tree_search(const GivenFlags& r, ProfileOptions& o) {
  o.tree_from = r.text("tree-from");
  o.tree_out = r.text("tree-out");
  o.heads.target = o.model;
  read_draft_heads(r, o.heads);
  for (const char* flag : {"tree-out", "heads", "mtp", "heads-kind", "heads-quant"}) {
    if (r.given(flag) && o.tree_from.empty()) throw UsageError(fmt::format("{} has no effect without --tree-from", r.shown(flag)));
  }
  if (o.tree_from.empty()) return;
  if (o.units.empty() || o.heads.draft_heads.size() != 1 || o.tree_out.empty())
    throw UsageError("--tree-from needs --units, --tree-out, and either one file of --heads or --mtp");
}

}  // namespace

Flags profile_flags() {
  auto flags = describe("profile",
                        "Measures how fast this machine could be, and with -m how close a model comes to that. One process, no mpirun.\n"
                        "A LIST has numbers and ranges: 512,1024 or 1-16; 1-9+4 is 1,5,9; 128-1024*2 is 128,256,512,1024.");
  auto add = flags.group(kGroup);
  add("-t, --threads", "Maximum number of compute threads (0: one per core)", FlagKind::kInt, "N", "0");
  add("-r, --rounds", "Rounds in which everything is measured once", FlagKind::kInt, "N", "5");
  add("--memory-mib", "Memory size for measuring bandwidth (0: several times the caches)", FlagKind::kInt, "MIB", "0");
  add("--widths", "With -m: runs of this many tokens", FlagKind::kWord, "LIST", "1,2,4,8,16,32,64");
  add("--contexts", "With -m: one token at these context lengths, up to the model's context", FlagKind::kWord, "LIST", "128-8192*2");
  add("--no-repack", "Keep the weights in the file's layout");
  add("--units", "With -m: only measure the best shares of a layer for these units, such as cpu:0-3+cpu:4-7, and keep them for later runs",
      FlagKind::kWord, "UNITS", "auto");
  add("--attention-cut", kAttentionCutHelp, FlagKind::kWord, "CUT", "heads");
  add("--tree-from",
      "With --units and --heads: build trees of 2 to 64 rows from this file of acceptance --json, measure a step with each, and choose the "
      "one with the most tokens per second (Ghidorah's ARCA)",
      FlagKind::kFile, "FILE");
  add("--tree-out", "Write the chosen tree to this file, which --tree reads", FlagKind::kFile, "FILE");
  add("--json", "Write the profile to this file", FlagKind::kFile, "FILE");
  add_cache_types(flags, kGroup, "TYPE");
  add_draft_heads(flags);
  add_numa(flags, "Machine");
  return flags;
}

ProfileOptions read_profile(const GivenFlags& r) {
  ProfileOptions o;
  o.model = r.text("model");
  o.numa = read_numa(r);
  o.repack = !r.given("no-repack");
  o.json_file = r.text("json");
  o.units = parse_units(r.text("units"));
  if (!o.units.empty() && o.units.front().share)
    throw UsageError("--units: profile measures the shares of the units; leave them out, as in --units cpu:0-3+cpu:4-7");
  o.attention_cut = parse_attention_cut(r.text("attention-cut"), o.units);
  for (const char* flag : {"units", "widths", "contexts", "no-repack", "cache-type-k", "cache-type-v"}) {
    if (r.given(flag) && o.model.empty())
      throw UsageError(fmt::format("{} has no effect without a model; name one with -m FILE.gguf", r.shown(flag)));
  }
  if (r.given("threads")) require_idle_threads(o.units);
  o.threads = number_in(r, "threads", 0, 1024, "between 0 and 1024", "-t").value_or(o.threads);
  o.rounds = number_in(r, "rounds", 1, 1000, "between 1 and 1000", "-r").value_or(o.rounds);
  o.memory_mib = number_in(r, "memory-mib", 0, 1 << 20, "between 0 and 1048576").value_or(o.memory_mib);
  o.widths = parse_counts("--widths", r.joined("widths"), 1, 1024);
  o.contexts = parse_counts("--contexts", r.joined("contexts"), 1, 1 << 20);
  o.contexts_given = r.given("contexts");
  o.cache_types = read_cache_types(r);
  read_tree_search(r, o);
  return o;
}

}  // namespace yamata
