#include "launch/program/options/flag_groups.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "launch/program/options/flag_values.hpp"
#include "launch/program/options/tree_file.hpp"
#include "launch/program/options/unit_flags.hpp"
#include "node/error.hpp"
#include "src/draft_heads/draft_heads_file.hpp"

namespace yamata {

cxxopts::Options new_flags(const std::string& command, const std::string& what) {
  cxxopts::Options flags("yamata " + command, what);
  flags.set_width(110);
  return flags;
}

cxxopts::Options describe(const std::string& command, const std::string& what) {
  cxxopts::Options flags = new_flags(command, what);
  flags.add_options("General")("m,model", "Model, a GGUF file (the first file of a split model)", cxxopts::value<std::string>(), "FILE")(
      "h,help", "Print this help");
  return flags;
}

bool given(const cxxopts::ParseResult& result, const char* name) {
  return std::ranges::any_of(result.arguments(), [&](const auto& pair) { return pair.key() == name; });
}

std::string text_of(const cxxopts::ParseResult& result, const char* name) {
  return given(result, name) ? result[name].as<std::string>() : "";
}

std::string read_model(const cxxopts::ParseResult& result) {
  std::string model = text_of(result, "model");
  if (model.empty()) throw UsageError("no model given; name one with -m FILE.gguf");
  return model;
}

void add_text(cxxopts::Options& flags) {
  flags.add_options("Text")("p,prompt", "The text, used unchanged", cxxopts::value<std::string>(), "TEXT");
  flags.add_options("Text")("f,file", "File with the text (-: standard input)", cxxopts::value<std::string>(), "FILE");
  flags.add_options("Text")("pre", "Force a pre-tokenizer by name", cxxopts::value<std::string>(), "NAME");
}

TextSource read_text_source(const cxxopts::ParseResult& r) {
  TextSource text;
  if (given(r, "prompt")) text.prompt = r["prompt"].as<std::string>();
  text.file = text_of(r, "file");
  if (text.prompt && !text.file.empty()) throw UsageError("both -p and -f are given; choose one");
  text.pre_tokenizer = text_of(r, "pre");
  return text;
}

void add_prompt_format(cxxopts::Options& flags) {
  flags.add_options("Text")("prompt-format", "Template for a prompt, in which {} stands for the prompt; \\n is a new line",
                            value_or<std::string>("{}"), "TEXT");
}

std::string read_prompt_format(const cxxopts::ParseResult& r) {
  auto format = r["prompt-format"].as<std::string>();
  require(format.find("{}") != std::string::npos, "--prompt-format", "a text with {} in it");
  return format;
}

void add_numa(cxxopts::Options& flags, const char* group) {
  flags.add_options(group)("numa",
                           "Placement of threads and memory on NUMA machines: auto (cores next to each other), distribute (over all "
                           "nodes), off (left to the system)",
                           value_or<std::string>("auto"), "POLICY");
}

Numa read_numa(const cxxopts::ParseResult& r) {
  const auto name = r["numa"].as<std::string>();
  require_word(name, {kNumaNames.begin(), kNumaNames.end()}, "--numa", "auto, distribute or off");
  return static_cast<Numa>(std::ranges::find(kNumaNames, name) - kNumaNames.begin());
}

void add_ranks(cxxopts::Options& flags, const std::string& auto_split) {
  auto cluster = flags.add_options("Cluster");
  cluster("layer-split,mpi-layer-split",
          "Share of the layers per rank, such as 0.5,0.3,0.2; ranks joined by + share each layer: 0.5+0.5; auto: " + auto_split +
              "; measure: the same, but measured again; bytes: by the bytes of the layers only",
          value_or<std::string>("auto"), "SPLIT");
  cluster("timeout", "End the job if a rank is silent or makes no progress for this long", value_or<Decimal<double>>("120"), "SECONDS");
  auto machine = flags.add_options("Machine");
  machine("units",
          "Compute units of this machine, which share every layer: groups of cores, such as cpu:0-3+cpu:4-7, and GPUs, such as cuda:0 or "
          "cpu+cuda:0; =0.6 after a unit is its share of the columns, else shares follow measured time (auto: one unit of cores)",
          value_or<std::string>("auto"), "UNITS");
  machine("gpu-layers,n-gpu-layers",
          "-ngl: a GPU computes the first N layers of the rank, the cores the rest; --units defaults to cpu+cuda:0 "
          "(auto: what --units says, every layer shared)",
          value_or<std::string>("auto"), "N");
  add_numa(flags, "Machine");
  machine("no-repack", "Keep the weights in the file's layout: slower, but less memory if several ranks of a host share them");
}

/// --units; read before -t is checked against it.
std::vector<UnitSpec> read_units(const cxxopts::ParseResult& r) {
  std::vector<UnitSpec> units = parse_units(r["units"].as<std::string>());
  if (given(r, "threads")) require_idle_threads(units);
  return units;
}

void add_cluster(cxxopts::Options& flags, const std::string& auto_split) {
  flags.add_options("Machine")("t,threads", kThreadsOfRanks, value_or<std::string>("0"), "N");
  add_ranks(flags, auto_split);
  flags.add_options("Cluster")("b,batch-size", "Prompt tokens per run (default: 64; with a GPU 512)", cxxopts::value<int>(), "N");
}

void read_ranks(const cxxopts::ParseResult& r, JobOptions& job) {
  job.layer_split = LayerSplit::parse(r["layer-split"].as<std::string>());
  job.numa = read_numa(r);
  job.units = read_units(r);
  job.gpu_layers = parse_gpu_layers(r["gpu-layers"].as<std::string>(), job.units);
  job.repack = !given(r, "no-repack");
  const auto timeout = number_of<double>(r, "timeout");
  require(timeout >= 0.5 && timeout <= 86400, "--timeout", "between 0.5 and 86400 seconds");
  job.timeout = std::chrono::milliseconds(static_cast<long long>(timeout * 1000));
}

int default_batch(const JobOptions& job) {
  constexpr int kBatch = 64, kDeviceBatch = 512;  // a GPU needs more rows to be busy
  return std::ranges::any_of(job.units, &UnitSpec::device) || job.gpu_layers.value_or(0) > 0 ? kDeviceBatch : kBatch;
}

int read_batch(const cxxopts::ParseResult& r, const JobOptions& job) {
  const int batch = given(r, "batch-size") ? r["batch-size"].as<int>() : default_batch(job);
  require(batch >= 1 && batch <= 8192, "-b", "between 1 and 8192");
  return batch;
}

void read_cluster(const cxxopts::ParseResult& r, JobOptions& job) {
  read_ranks(r, job);
  job.threads = parse_thread_count("-t", r["threads"].as<std::string>(), job.measure_threads);
  job.batch = read_batch(r, job);
}

void add_context(cxxopts::Options& flags, const char* fallback) {
  flags.add_options("Context")("c,ctx-size", kContextSize, value_or<int>(fallback), "N");
  flags.add_options("Context")("cache-type", "Type of cached keys and values: f16, f32 or q8_0", value_or<std::string>("f16"), "TYPE");
  flags.add_options("Context")("cache-type-k", "-ctk, type of cached keys", cxxopts::value<std::string>(), "TYPE");
  flags.add_options("Context")("cache-type-v", "-ctv, type of cached values", cxxopts::value<std::string>(), "TYPE");
}

CacheType parse_cache_type(const std::string& name, const char* flag) {
  require_word(name, {"f16", "f32", "q8_0"}, flag, "f16, f32 or q8_0");
  return name == "f16" ? CacheType::kF16 : name == "f32" ? CacheType::kF32 : CacheType::kQ8_0;
}

int read_context_size(const cxxopts::ParseResult& r, int least) {
  const int context = r["ctx-size"].as<int>();
  require(context >= 0 && context <= 2147000000, "-c", "between 0 and 2147000000");
  require(context == 0 || context >= least, "-c", "at least 3 for a perplexity");
  return context;
}

void add_cache_types(cxxopts::Options& flags, const std::string& group, const char* placeholder) {
  auto add = flags.add_options(group);
  add("cache-type-k", "-ctk, type of cached keys: f16, f32 or q8_0", value_or<std::string>("f16"), placeholder);
  add("cache-type-v", "-ctv, type of cached values", value_or<std::string>("f16"), placeholder);
}

CacheTypes read_cache_types(const cxxopts::ParseResult& r) {
  return {parse_cache_type(r["cache-type-k"].as<std::string>(), "-ctk"), parse_cache_type(r["cache-type-v"].as<std::string>(), "-ctv")};
}

void read_context(const cxxopts::ParseResult& r, JobOptions& job) {
  const auto both = r["cache-type"].as<std::string>();
  parse_cache_type(both, "--cache-type");
  const auto type = [&](const char* name, const char* flag) { return parse_cache_type(given(r, name) ? text_of(r, name) : both, flag); };
  job.cache_types = {type("cache-type-k", "-ctk"), type("cache-type-v", "-ctv")};
}

void add_sampling(cxxopts::Options& flags) {
  auto add = flags.add_options("Sampling");
  add("temp", "Temperature (0: greedy decoding)", value_or<Decimal<float>>("0"), "T");
  add("top-k", "Sample among the K most probable tokens (0: off)", value_or<int>("40"), "K");
  add("top-p", "Sample among the most probable tokens with a total probability of P (1: off)", value_or<Decimal<float>>("0.95"), "P");
  add("min-p", "Exclude tokens less probable than P times the best one (0: off)", value_or<Decimal<float>>("0.05"), "P");
  add("repeat-penalty", "Make repeated tokens less probable (1: off)", value_or<Decimal<float>>("1"), "R");
  add("repeat-last-n", "Number of last tokens to which the penalty applies", value_or<int>("64"), "N");
  add("s,seed", "Random seed", value_or<std::uint64_t>("0"), "SEED");
  add("ignore-eos", "Never sample an end-of-text token");
}

SamplingParams read_sampling(const cxxopts::ParseResult& r) {
  SamplingParams sampling;
  sampling.temperature = number_of<float>(r, "temp");
  sampling.top_k = r["top-k"].as<int>();
  sampling.top_p = number_of<float>(r, "top-p");
  sampling.min_p = number_of<float>(r, "min-p");
  sampling.repeat_penalty = number_of<float>(r, "repeat-penalty");
  sampling.repeat_last_n = r["repeat-last-n"].as<int>();
  sampling.seed = r["seed"].as<std::uint64_t>();
  require(sampling.temperature >= 0, "--temp", "0 or more");
  require(sampling.top_k >= 0, "--top-k", "0 or more");
  require(sampling.top_p > 0 && sampling.top_p <= 1, "--top-p", "above 0 and at most 1");
  require(sampling.min_p >= 0 && sampling.min_p < 1, "--min-p", "at least 0 and below 1");
  require(sampling.repeat_penalty > 0, "--repeat-penalty", "above 0");
  require(sampling.repeat_last_n >= 0, "--repeat-last-n", "0 or more");
  return sampling;
}

void add_speculation(cxxopts::Options& flags, const char* strategies, const char* strategy, const std::set<std::string>& unlisted,
                     const char* drafters) {
  const auto add = [&](const std::string& name, const auto&... rest) {
    flags.add_options(unlisted.contains(name) ? kUnlistedGroup : kSpeculationGroup)(name, rest...);
  };
  add("model-draft", "-md: a draft model with the same vocabulary; repeatable", cxxopts::value<std::vector<std::string>>(), "FILE");
  add("drafters", drafters, value_or<int>("1"), "N");
  add("strategy", strategies, value_or<std::string>(strategy), "NAME");
  add("policy",
      "How to choose the next guesses: best-first, chain, static-tree, dynamic-tree or multi-sequence (auto: best-first, or chain if one "
      "of its flags is given)",
      value_or<std::string>("auto"), "NAME");
  add("draft", "Maximum number of guesses per run", value_or<int>("8"), "N");
  add("p-min", "best-first: minimum path probability of a guess, however cheap its row is", value_or<Decimal<float>>("0.02"), "P");
  add("p-accept", "-pa, chain: minimum probability that continues a branch", value_or<Decimal<float>>("0.5"), "P");
  add("p-split", "-ps, chain: minimum probability that opens another branch", value_or<Decimal<float>>("0.1"), "P");
  add("p-recovery", "-pr, chain: added to -pa and -ps for every run since a guess was last accepted", value_or<Decimal<float>>("0"), "P");
  add("p-decay", "-pd, chain: subtracted from -pa and -ps whenever no guess was probable enough", value_or<Decimal<float>>("0"), "P");
  add("parallel", "-np, chain: maximum number of branches", value_or<int>("1"), "N");
  add("tree",
      "static-tree: a file with its shape, or a file of yamata acceptance --json, from whose rates a tree of --draft guesses is built",
      cxxopts::value<std::string>(), "FILE");
  add("tree-depth", "dynamic-tree: maximum depth", value_or<int>("4"), "K");
  add("tree-children", "dynamic-tree: maximum number of guesses after one token", value_or<int>("32"), "M");
  add("no-lookup", "Do not guess from earlier passages of this text or earlier texts; only from drafts and heads");
  add("suffix-store", "Keep generated text in this file, and guess from it in later jobs", cxxopts::value<std::string>(), "FILE");
  add("draft-units", "Compute units of drafts and heads, written as for --units (auto: those of --units)", value_or<std::string>("auto"),
      "UNITS");
  add("no-async", "Ablation: draft on rank 0, alternating with its layers");
  add("no-tree-reuse", "Ablation: discard the tree whenever a guess is accepted, and draft again from the last token, as the paper does");
  add("no-continuous", "Ablation: one speculative run at a time");
  add("no-cancel", "Ablation: do not cancel runs that are no longer needed");
  add("no-multibuffer", "Ablation: one cache partition for guesses, so they are on a single path of the tree at a time");
}

namespace {

std::vector<std::string> read_drafts(const cxxopts::ParseResult& r) {
  std::vector<std::string> drafts;
  if (!given(r, "model-draft")) return drafts;
  require(r["drafters"].as<int>() >= 1, "--drafters", "at least 1");
  for (const std::string& draft : r["model-draft"].as<std::vector<std::string>>()) {
    for (int i = 0; i < r["drafters"].as<int>(); ++i) drafts.push_back(draft);
  }
  require(drafts.size() <= 16, "--drafters", "such that there are 16 drafters at most");
  return drafts;
}

PolicyOptions read_policy(const cxxopts::ParseResult& r) {
  PolicyOptions policy;
  policy.name = r["policy"].as<std::string>();
  const bool chain = given(r, "p-accept") || given(r, "p-split") || given(r, "p-recovery") || given(r, "p-decay") || given(r, "parallel");
  require(!chain || policy.name == "auto" || policy.name == "chain", "--policy", "chain where -pa, -ps, -pr, -pd or -np are given");
  require_word(policy.name, {"best-first", "chain", "static-tree", "dynamic-tree", "multi-sequence", "auto"}, "--policy",
               "best-first, chain, static-tree, dynamic-tree, multi-sequence or auto");
  if (policy.name == "auto") policy.name = chain ? "chain" : "best-first";
  policy.draft = r["draft"].as<int>();
  policy.threshold = number_of<float>(r, "p-min");
  policy.accept = number_of<float>(r, "p-accept");
  policy.split = number_of<float>(r, "p-split");
  policy.recovery = number_of<float>(r, "p-recovery");
  policy.decay = number_of<float>(r, "p-decay");
  policy.branches = r["parallel"].as<int>();
  require(policy.draft >= 1 && policy.draft <= 64, "--draft", "between 1 and 64");
  require(policy.branches >= 1 && policy.branches <= 16, "-np", "between 1 and 16");
  require(policy.threshold >= 0 && policy.threshold <= 1, "--p-min", "between 0 and 1");
  require(policy.accept >= 0 && policy.accept <= 1, "-pa", "between 0 and 1");
  require(policy.split >= 0 && policy.split <= 1, "-ps", "between 0 and 1");
  policy.depth = r["tree-depth"].as<int>();
  policy.children = r["tree-children"].as<int>();
  require(policy.depth >= 1 && policy.depth <= 64, "--tree-depth", "between 1 and 64");
  require(policy.children >= 1 && policy.children <= 64, "--tree-children", "between 1 and 64");
  if (const std::string file = text_of(r, "tree"); !file.empty()) {
    require(policy.name == "static-tree", "--policy", "static-tree where --tree is given");
    policy.tree = read_tree(file, policy.draft);
    policy.draft = policy.tree->width() - 1;
  }
  return policy;
}

}  // namespace

void add_draft_heads(cxxopts::Options& flags) {
  auto add = flags.add_options(kSpeculationGroup);
  add("heads",
      "Draft heads, which guess from the model's hidden states (Medusa, EAGLE-1 to 3, DGF, MTP): a safetensors file, a folder with one, "
      "or a GGUF file; repeatable",
      cxxopts::value<std::vector<std::string>>(), "FILE");
  add("mtp", "Guess with the multi-token prediction layer (nextn) of the model's own file, if it has one");
  add("heads-kind", "Kind of the heads, if their tensors do not tell: medusa, eagle, dgf, eagle3 or nextn", cxxopts::value<std::string>(),
      "KIND");
  add("heads-quant",
      "Format of the heads' matrices in memory: q8_0, q4_0 (half of q8_0's bytes, but more guesses are wrong), or stored (as in the file)",
      value_or<std::string>("q8_0"), "TYPE");
}

void read_draft_heads(const cxxopts::ParseResult& r, JobOptions& job) {
  if (given(r, "heads")) job.draft_heads = r["heads"].as<std::vector<std::string>>();
  require(job.draft_heads.size() <= 8, "--heads", "given 8 times at most");
  job.mtp = given(r, "mtp");
  if (job.mtp) job.draft_heads.push_back(job.model);
  job.draft_heads_kind = text_of(r, "heads-kind");
  require(job.draft_heads_kind.empty() || draft_heads::find_kind(job.draft_heads_kind), "--heads-kind",
          "medusa, eagle, dgf, eagle3 or nextn");
  const auto quant = r["heads-quant"].as<std::string>();
  require(quant == "q8_0" || quant == "q4_0" || quant == "stored", "--heads-quant", "q8_0, q4_0 or stored");
  job.draft_heads_matrices = quant == "q8_0"   ? draft_heads::MatrixType(TensorType::Q8_0)
                             : quant == "q4_0" ? draft_heads::MatrixType(TensorType::Q4_0)
                                               : std::nullopt;
}

SpeculationOptions read_speculation(const cxxopts::ParseResult& r, JobOptions& job) {
  job.draft_models = read_drafts(r);
  job.draft_on_head = given(r, "no-async");
  job.draft_units = parse_units(r["draft-units"].as<std::string>(), "--draft-units");
  SpeculationOptions speculation;
  speculation.policy = read_policy(r);
  speculation.tree_file = text_of(r, "tree");
  speculation.lookup = !given(r, "no-lookup");
  speculation.suffix_store = text_of(r, "suffix-store");
  require(speculation.suffix_store.empty() || speculation.looks_up(), "--suffix-store",
          "left out with --no-lookup and --policy chain, which do not guess from texts");
  speculation.continuous = !given(r, "no-continuous");
  speculation.reuse_tree = !given(r, "no-tree-reuse");
  speculation.cancel = !given(r, "no-cancel");
  speculation.multibuffer = !given(r, "no-multibuffer");
  return speculation;
}

}  // namespace yamata
