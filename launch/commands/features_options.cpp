#include "launch/commands/features_options.hpp"

#include <algorithm>
#include <iterator>

#include "launch/commands/idle_flags.hpp"
#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

std::vector<std::string> read_idle_flags(const GivenFlags& r, const FeaturesOptions& o) {
  if (o.generates) {
    std::vector<std::string> lines =
        idle_flags(r, {.models = o.job.models, .layout = o.job.layout, .speculation = {}, .sampling = &o.sampling});
    if (!o.formats && !o.text.file.ends_with(".jsonl")) return lines;
    std::ranges::copy(idle_flags(r, {{{"prompt-tokens"}, "with prompts that are whole: those of a .jsonl file, or of --prompt-format"}}),
                      std::back_inserter(lines));
    return lines;
  }
  IdleReason reason{{"prompt-tokens"}, "without --generate, as no text is continued; add --generate N, or leave it out"};
  Flags sampling("", "");
  add_sampling(sampling);
  for (const Flag& flag : sampling.all()) reason.flags.push_back(flag.name);
  return idle_flags(r, {reason});
}

}  // namespace

Flags features_flags() {
  auto flags = describe("features", "Writes hidden states of a model over a text, to train draft heads: one or several safetensors files.");
  add_text(flags);
  add_prompt_format(flags);
  auto add = flags.group("Features");
  add("-o, --output", "Output file; further files have a number in their name", FlagKind::kFile, "FILE.safetensors");
  add("--layers",
      "Layers whose inputs are written, such as 2,15,27; last: after the output norm; eagle3: the layers that EAGLE-3 reads, "
      "three unless the model has fewer",
      FlagKind::kWord, "LIST", "last");
  add("--generate",
      "Continue each prompt by N tokens, and write their hidden states, too. In a .jsonl file each line has a prompt; in another file "
      "the first --prompt-tokens tokens of each line are one, or with --prompt-format the whole line",
      FlagKind::kInt, "N");
  add("--prompt-tokens", "With --generate: number of tokens at the beginning of a line that are its prompt", FlagKind::kInt, "N", "32");
  add("--texts", "Maximum number of texts (0: all)", FlagKind::kInt, "N", "0");
  add("--type", "Type of the values: f16 or f32", FlagKind::kWord, "TYPE", "f16");
  add("--shard", "Approximate size of a file in MiB", FlagKind::kInt, "MIB", "512");
  add_sampling(flags);
  add_context(flags, "512");
  add_cluster(flags);
  return flags;
}

FeaturesOptions read_features(const GivenFlags& r) {
  FeaturesOptions o;
  o.job.models.target = read_model(r);
  o.text = read_text_source(r);
  o.output = r.text("output");
  if (o.output.empty()) throw UsageError("no file to write to; name one with -o FILE.safetensors");
  o.layers = split_list(r.text("layers"));
  const auto type = r.text("type");
  require(type == "f16" || type == "f32", "--type", "f16 or f32");
  o.halves = type == "f16";
  const auto generate = number_in<int>(r, "generate", 1, 1 << 20, "between 1 and 1048576");
  o.generates = generate.has_value();
  o.generate = generate.value_or(1);
  o.prompt_format = read_prompt_format(r);
  o.formats = r.given("prompt-format");
  if (o.formats && !o.generates && !o.text.file.ends_with(".jsonl"))
    throw UsageError("--prompt-format has no prompts in a text that is not continued; add --generate, or name a .jsonl file");
  o.prompt_tokens = r.number<int>("prompt-tokens");
  require(o.prompt_tokens >= 1, "--prompt-tokens", "at least 1");
  o.texts = r.number<int>("texts");
  require(o.texts >= 0, "--texts", "0 or more");
  o.shard_mib = r.number<int>("shard");
  require(o.shard_mib >= 1 && o.shard_mib <= 65536, "--shard", "between 1 and 65536");
  o.sampling = read_sampling(r);
  o.ignore_eos = r.given("ignore-eos");
  o.idle_flags = read_idle_flags(r, o);
  read_cluster(r, o.job);
  o.job.layout.strategy = Strategy::kIterative;
  read_context(r, o.job.cache, 3);
  return o;
}

}  // namespace yamata
