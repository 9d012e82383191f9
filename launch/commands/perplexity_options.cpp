#include "launch/commands/perplexity_options.hpp"

#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"

namespace yamata {

Flags perplexity_flags() {
  auto flags =
      describe("perplexity", "Measures the perplexity of a text, in chunks of the context size; the second half of each is scored.");
  add_text(flags);
  add_context(flags, "512");
  flags.group("Text")("--chunks", "Chunks to score (0: all)", FlagKind::kInt, "N", "0");
  add_cluster(flags);
  flags.group("Output")("--json", "Write the result to this file", FlagKind::kFile, "FILE");
  return flags;
}

PerplexityOptions read_perplexity(const GivenFlags& r) {
  PerplexityOptions o;
  o.job.models.target = read_model(r);
  o.text = read_text_source(r);
  o.json_file = r.text("json");
  read_cluster(r, o.job);
  o.job.layout.strategy = Strategy::kIterative;
  read_context(r, o.job.cache, 3);
  o.chunks = r.number<int>("chunks");
  require(o.chunks >= 0, "--chunks", "0 or more");
  return o;
}

}  // namespace yamata
