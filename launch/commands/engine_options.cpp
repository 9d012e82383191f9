#include "launch/commands/engine_options.hpp"

#include <fmt/format.h>

#include "launch/commands/idle_flags.hpp"
#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"
#include "node/error.hpp"

namespace yamata {

std::vector<std::string> EngineOptions::inputs() const {
  std::vector<std::string> files = job.models.all();
  files.insert(files.end(), {speculation.tree_file, speculation.datastore});
  return files;
}

Flags engine_flags() {
  auto flags = describe(
      "engine", "Serve requests: JSON lines on standard input and output (docs/serving.md); launch/serve starts it and speaks HTTP.");
  flags.group("Text")("--pre", "Force a pre-tokenizer by name", FlagKind::kText, "NAME");
  add_sampling(flags);
  add_speculation(flags,
                  "iterative (no guessing), speculative or pipeinfer; the text is the same with each; without a draft the latter two guess "
                  "repeated text (auto: pipeinfer, on a single rank speculative, without any guess source iterative)",
                  "auto");
  add_draft_heads(flags);
  add_context(flags, "0");
  flags.group("Context")("--slots", "Texts that are generated at a time, at most; further requests wait", FlagKind::kInt, "N", "8")(
      "--cache-tokens",
      "Tokens that the cache holds: of these texts together, and of earlier ones, whose beginnings are not computed again; at least the "
      "context (0: up to 4096 for each slot, less if memory is short)",
      FlagKind::kInt, "N", "0");
  flags.group("Context")("--requests", "Choose the layout, if it is left open, for N texts at a time", FlagKind::kInt, "N", "1");
  add_cluster(flags, "on several machines the fastest layout, else by measured speed");
  return flags;
}

EngineOptions read_engine(const GivenFlags& r) {
  EngineOptions o;
  o.job.models.target = read_model(r);
  o.pre_tokenizer = r.text("pre");
  read_drafts(r, o.job);
  o.speculation = read_speculation(r);
  read_draft_heads(r, o.job.models);
  read_cluster(r, o.job);
  o.job.layout.planned = true;
  read_context(r, o.job.cache);
  o.slots = r.number<int>("slots");
  require(o.slots >= 1 && o.slots <= 64, "--slots", "between 1 and 64");
  o.requests = r.number<int>("requests");
  require(o.requests >= 1 && o.requests <= o.slots, "--requests", fmt::format("between 1 and --slots, which is {}", o.slots).c_str());
  o.cache_tokens = r.number<int>("cache-tokens");
  require(o.cache_tokens >= 0 && o.cache_tokens <= (1 << 25), "--cache-tokens", "between 0 and 33554432");
  o.sampling = read_sampling(r);
  const auto name = r.text("strategy");
  o.job.layout.strategy = find_strategy(name);
  require_word(name, {"iterative", "speculative", "pipeinfer", "auto"}, "--strategy", "iterative, speculative, pipeinfer or auto");
  o.job.layout.guesses_text = o.speculation.looks_up();
  const bool speculates = o.job.layout.strategy && o.job.layout.strategy != Strategy::kIterative;
  require(!speculates || o.job.layout.guesses_text || o.job.models.guess(), "--strategy",
          "iterative without a guess source; name a draft model or heads");
  o.idle_flags = idle_flags(r, {.models = o.job.models, .layout = o.job.layout, .speculation = o.speculation});
  return o;
}

}  // namespace yamata
