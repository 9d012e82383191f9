#include "launch/commands/acceptance_options.hpp"

#include "launch/commands/idle_flags.hpp"
#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"
#include "node/error.hpp"

namespace yamata {

cxxopts::Options acceptance_flags() {
  auto flags = describe("acceptance", "Measures how often each guess source is right, by distance, on text that the model generates.");
  auto text = flags.add_options("Text");
  text("f,file", "Prompts, one per line of JSON: its \"prompt\", its \"text\", or the first of its \"turns\"",
       cxxopts::value<std::string>(), "FILE.jsonl");
  add_prompt_format(flags);
  text("prompts", "Use the first N prompts (0: all)", value_or<int>("0"), "N");
  text("pre", "Force a pre-tokenizer by name", cxxopts::value<std::string>(), "NAME");
  text("n,predict", "Tokens to generate after each prompt", value_or<int>("128"), "N");
  text("levels", "Maximum distance in tokens", value_or<int>("8"), "N");
  add_sampling(flags);
  add_speculation(flags, "", "auto", {"strategy", "suffix-store"});
  add_draft_heads(flags);
  add_context(flags, "0");
  add_cluster(flags);
  flags.add_options("Output")("json", "Write all rates to this file, which --tree reads", cxxopts::value<std::string>(), "FILE");
  return flags;
}

AcceptanceOptions read_acceptance(const cxxopts::ParseResult& r) {
  AcceptanceOptions o;
  o.job.model = read_model(r);
  o.prompts_file = text_of(r, "file");
  if (o.prompts_file.empty()) throw UsageError("no prompts given; name a file with -f FILE.jsonl");
  o.prompt_format = read_prompt_format(r);
  o.most_prompts = r["prompts"].as<int>();
  require(o.most_prompts >= 0, "--prompts", "0 or more");
  o.pre_tokenizer = text_of(r, "pre");
  o.json_file = text_of(r, "json");
  o.speculation = read_speculation(r, o.job);
  read_draft_heads(r, o.job);
  require(r["strategy"].as<std::string>() == "auto", "--strategy", "left out: no guess is sent");
  require(o.speculation.suffix_store.empty(), "--suffix-store", "left out: text of earlier jobs would count as guessed");
  if (!o.job.guesses() && !o.speculation.lookup)
    throw UsageError(
        "there is no guess source; name a draft model with -md FILE.gguf or heads with --heads FILE, or leave --no-lookup out");
  read_cluster(r, o.job);
  o.job.strategy = Strategy::kSpeculative;
  o.job.guesses_text = o.speculation.lookup;
  o.job.generate = r["predict"].as<int>();
  require(o.job.generate >= 1, "-n", "at least 1");
  o.levels = r["levels"].as<int>();
  require(o.levels >= 1 && o.levels <= 32, "--levels", "between 1 and 32");
  o.job.context = read_context_size(r);
  read_context(r, o.job);
  o.sampling = read_sampling(r);
  o.idle_flags = idle_flags(r, {.job = o.job, .speculation = o.speculation, .sampling = &o.sampling});
  return o;
}

}  // namespace yamata
