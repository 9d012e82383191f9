#include "launch/commands/perplexity_options.hpp"

#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"

namespace yamata {

cxxopts::Options perplexity_flags() {
  auto flags =
      describe("perplexity", "Measures the perplexity of a text, in chunks of the context size; the second half of each is scored.");
  add_text(flags);
  add_context(flags, "512");
  flags.add_options("Text")("chunks", "Chunks to score (0: all)", value_or<int>("0"), "N");
  add_cluster(flags);
  flags.add_options("Output")("json", "Write the result to this file", cxxopts::value<std::string>(), "FILE");
  return flags;
}

PerplexityOptions read_perplexity(const cxxopts::ParseResult& r) {
  PerplexityOptions o;
  o.job.model = read_model(r);
  o.text = read_text_source(r);
  o.json_file = text_of(r, "json");
  read_cluster(r, o.job);
  o.job.strategy = Strategy::kIterative;
  o.job.context = read_context_size(r, 3);
  read_context(r, o.job);
  o.chunks = r["chunks"].as<int>();
  require(o.chunks >= 0, "--chunks", "0 or more");
  return o;
}

}  // namespace yamata
