#include "launch/program/options/flag_groups.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "launch/program/options/fetch_flags.hpp"
#include "launch/program/options/flag_values.hpp"
#include "launch/program/options/tree_file.hpp"
#include "launch/program/options/unit_flags.hpp"
#include "node/error.hpp"
#include "src/draft_heads/draft_heads_file.hpp"

namespace yamata {

Flags describe(const std::string& command, const std::string& what) {
  Flags flags(command, what);
  flags.group("General")("-m, --model", "Model, a GGUF file (the first file of a split model)", FlagKind::kFile, "FILE")("-h, --help",
                                                                                                                         "Print this help");
  return flags;
}

std::string read_model(const GivenFlags& result) {
  std::string model = result.text("model");
  if (model.empty()) throw UsageError("no model given; name one with -m FILE.gguf");
  return model;
}

void add_text(Flags& flags) {
  flags.group("Text")("-p, --prompt", "The text, used unchanged", FlagKind::kText, "TEXT");
  flags.group("Text")("-f, --file", "File with the text (-: standard input)", FlagKind::kFile, "FILE");
  flags.group("Text")("--pre", "Force a pre-tokenizer by name", FlagKind::kText, "NAME");
}

TextSource read_text_source(const GivenFlags& r) {
  TextSource text;
  if (r.given("prompt")) text.prompt = r.text("prompt");
  text.file = r.text("file");
  if (text.prompt && !text.file.empty()) throw UsageError("both -p and -f are given; choose one");
  text.pre_tokenizer = r.text("pre");
  return text;
}

void add_prompt_format(Flags& flags) {
  flags.group("Text")("--prompt-format", "Template for a prompt, in which {} stands for the prompt; \\n is a new line", FlagKind::kText,
                      "TEXT", "{}");
}

std::string read_prompt_format(const GivenFlags& r) {
  auto format = r.text("prompt-format");
  require(format.find("{}") != std::string::npos, "--prompt-format", "a text with {} in it");
  return format;
}

void add_numa(Flags& flags, const char* group) {
  flags.group(group)("--numa",
                     "Placement of threads and memory on NUMA machines: auto (cores next to each other), distribute (over all "
                     "nodes), off (left to the system)",
                     FlagKind::kWord, "POLICY", "auto");
}

Numa read_numa(const GivenFlags& r) {
  const auto name = r.text("numa");
  require_word(name, {kNumaNames.begin(), kNumaNames.end()}, "--numa", "auto, distribute or off");
  return static_cast<Numa>(std::ranges::find(kNumaNames, name) - kNumaNames.begin());
}

void add_ranks(Flags& flags, const std::string& auto_split) {
  auto cluster = flags.group("Cluster");
  cluster("--layer-split, --mpi-layer-split",
          "Share of the layers per rank, such as 0.5,0.3,0.2; ranks joined by + share each layer: 0.5+0.5; auto: " + auto_split +
              "; measure: the same, but measured again; bytes: by the bytes of the layers only",
          FlagKind::kWord, "SPLIT", "auto");
  cluster("--timeout", "End the job if a rank is silent or makes no progress for this long", FlagKind::kDouble, "SECONDS", "120");
  cluster("--serving-timeout", "The same once all ranks have loaded (default: --timeout)", FlagKind::kDouble, "SECONDS");
  add_fetch(flags);
  auto machine = flags.group("Machine");
  machine("--units",
          "Compute units of this machine, which share every layer: groups of cores, such as cpu:0-3+cpu:4-7, and GPUs, such as cuda:0 or "
          "cpu+cuda:0; =0.6 after a unit is its share of the columns, else shares follow measured time (auto: one unit of cores)",
          FlagKind::kWord, "UNITS", "auto");
  machine("--attention-cut", kAttentionCutHelp, FlagKind::kWord, "CUT", "heads");
  machine("-ngl, --gpu-layers, --n-gpu-layers",
          "-ngl: a GPU computes the first N layers of the rank, the cores the rest; --units defaults to cpu+cuda:0 "
          "(auto: as many as fit into its memory beside drafts there; without -ngl, units share every layer)",
          FlagKind::kWord, "N", "");
  machine("--offload", "With -ngl: the GPU computes the other layers, too; their weights are copied to it for every run");
  add_numa(flags, "Machine");
  machine("--no-repack", "Keep the weights in the file's layout: slower, but less memory if several ranks of a host share them");
}

void add_cluster(Flags& flags, const std::string& auto_split) {
  flags.group("Machine")("-t, --threads", kThreadsOfRanks, FlagKind::kWord, "N", "0");
  add_ranks(flags, auto_split);
  flags.group("Cluster")("-b, --batch-size", "Prompt tokens per run (default: 64; with a GPU 512)", FlagKind::kInt, "N");
}

void read_ranks(const GivenFlags& r, JobOptions& job) {
  job.layout.split = LayerSplit::parse(r.text("layer-split"));
  job.fetch = read_fetch(r);
  job.compute.numa = read_numa(r);
  job.compute.units = read_units(r);
  job.compute.attention_cut = parse_attention_cut(r.text("attention-cut"), job.compute.units);
  job.compute.attention_cut_given = r.given("attention-cut");
  if (r.given("gpu-layers")) job.compute.gpu_layers = parse_gpu_layers(r.text("gpu-layers"), job.compute.units);
  require(job.compute.attention_cut == AttentionCut::kHeads || job.compute.gpu_layers.value_or(0) == 0, "--attention-cut",
          "left out with -ngl, with which no layer is divided between cores and device");
  job.compute.repack = !r.given("no-repack");
  set_offload(job.compute, "--offload", r.given("offload"));
  const auto timeout = r.number<double>("timeout");
  require(timeout >= 0.5 && timeout <= 86400, "--timeout", "between 0.5 and 86400 seconds");
  job.timeout = std::chrono::milliseconds(static_cast<long long>(timeout * 1000));
  const auto serving = r.given("serving-timeout") ? r.number<double>("serving-timeout") : timeout;
  require(serving >= 0.5 && serving <= timeout, "--serving-timeout", "between 0.5 seconds and --timeout");
  job.serving_timeout = std::chrono::milliseconds(static_cast<long long>(serving * 1000));
}

int default_batch(const ComputeOptions& compute) {
  constexpr int kBatch = 64, kDeviceBatch = 512;  // a GPU needs more rows to be busy
  return std::ranges::any_of(compute.units, &UnitSpec::device) || compute.gpu_layers.value_or(0) > 0 ? kDeviceBatch : kBatch;
}

int read_batch(const GivenFlags& r, const ComputeOptions& compute) {
  const int batch = r.given("batch-size") ? r.number<int>("batch-size") : default_batch(compute);
  require(batch >= 1 && batch <= 8192, "-b", "between 1 and 8192");
  return batch;
}

void read_cluster(const GivenFlags& r, JobOptions& job) {
  read_ranks(r, job);
  job.compute.threads = parse_thread_count("-t", r.text("threads"), job.compute.measure_threads);
  job.cache.batch = read_batch(r, job.compute);
}

void add_context(Flags& flags, const char* fallback) {
  flags.group("Context")("-c, --ctx-size", kContextSize, FlagKind::kInt, "N", fallback);
  flags.group("Context")("--cache-type", "Type of cached keys and values: f16, f32 or q8_0", FlagKind::kWord, "TYPE", "f16");
  flags.group("Context")("-ctk, --cache-type-k", "-ctk, type of cached keys", FlagKind::kWord, "TYPE");
  flags.group("Context")("-ctv, --cache-type-v", "-ctv, type of cached values", FlagKind::kWord, "TYPE");
}

CacheType parse_cache_type(const std::string& name, const char* flag) {
  require_word(name, {"f16", "f32", "q8_0"}, flag, "f16, f32 or q8_0");
  return name == "f16" ? CacheType::kF16 : name == "f32" ? CacheType::kF32 : CacheType::kQ8_0;
}

int read_context_size(const GivenFlags& r, int least) {
  const int context = r.number<int>("ctx-size");
  require(context >= 0 && context <= 2147000000, "-c", "between 0 and 2147000000");
  require(context == 0 || context >= least, "-c", "at least 3 for a perplexity");
  return context;
}

void add_cache_types(Flags& flags, const std::string& group, const char* placeholder) {
  auto add = flags.group(group);
  add("-ctk, --cache-type-k", "-ctk, type of cached keys: f16, f32 or q8_0", FlagKind::kWord, placeholder, "f16");
  add("-ctv, --cache-type-v", "-ctv, type of cached values", FlagKind::kWord, placeholder, "f16");
}

CacheTypes read_cache_types(const GivenFlags& r) {
  return {parse_cache_type(r.text("cache-type-k"), "-ctk"), parse_cache_type(r.text("cache-type-v"), "-ctv")};
}

void read_context(const GivenFlags& r, CacheOptions& cache, int least) {
  cache.context = read_context_size(r, least);
  const auto both = r.text("cache-type");
  parse_cache_type(both, "--cache-type");
  const auto type = [&](const char* name, const char* flag) { return parse_cache_type(r.given(name) ? r.text(name) : both, flag); };
  cache.types = {type("cache-type-k", "-ctk"), type("cache-type-v", "-ctv")};
}

void add_sampling(Flags& flags) {
  auto add = flags.group("Sampling");
  add("--temp", "Temperature (0: greedy decoding)", FlagKind::kFloat, "T", "0");
  add("--top-k", "Sample among the K most probable tokens (0: off)", FlagKind::kInt, "K", "40");
  add("--top-p", "Sample among the most probable tokens with a total probability of P (1: off)", FlagKind::kFloat, "P", "0.95");
  add("--min-p", "Exclude tokens less probable than P times the best one (0: off)", FlagKind::kFloat, "P", "0.05");
  add("--repeat-penalty", "Make repeated tokens less probable (1: off)", FlagKind::kFloat, "R", "1");
  add("--repeat-last-n", "Number of last tokens to which the penalty applies", FlagKind::kInt, "N", "64");
  add("-s, --seed", "Random seed", FlagKind::kUint64, "SEED", "0");
  add("--ignore-eos", "Never sample an end-of-text token");
}

SamplingParams read_sampling(const GivenFlags& r) {
  SamplingParams sampling;
  sampling.temperature = r.number<float>("temp");
  sampling.top_k = r.number<int>("top-k");
  sampling.top_p = r.number<float>("top-p");
  sampling.min_p = r.number<float>("min-p");
  sampling.repeat_penalty = r.number<float>("repeat-penalty");
  sampling.repeat_last_n = r.number<int>("repeat-last-n");
  sampling.seed = r.number<std::uint64_t>("seed");
  require(sampling.temperature >= 0, "--temp", "0 or more");
  require(sampling.top_k >= 0, "--top-k", "0 or more");
  require(sampling.top_p > 0 && sampling.top_p <= 1, "--top-p", "above 0 and at most 1");
  require(sampling.min_p >= 0 && sampling.min_p < 1, "--min-p", "at least 0 and below 1");
  require(sampling.repeat_penalty > 0, "--repeat-penalty", "above 0");
  require(sampling.repeat_last_n >= 0, "--repeat-last-n", "0 or more");
  return sampling;
}

void add_speculation(Flags& flags, const char* strategies, const char* strategy, const std::set<std::string>& unlisted,
                     const char* drafters) {
  const auto add = [&](const char* spelled, const auto&... rest) {
    flags.group(unlisted.contains(spelled) ? kUnlistedGroup : kSpeculationGroup)(spelled, rest...);
  };
  add("-md, --model-draft", "-md: a draft model with the same vocabulary; repeatable", FlagKind::kFiles, "FILE");
  add("--drafters", drafters, FlagKind::kInt, "N", "1");
  add("--strategy", strategies, FlagKind::kWord, "NAME", strategy);
  add("--policy",
      "How to choose the next guesses: best-first, chain, static-tree, dynamic-tree or multi-sequence (auto: best-first, or chain if one "
      "of its flags is given, or static-tree with --tree)",
      FlagKind::kWord, "NAME", "auto");
  add("--draft", "Maximum number of guesses per run", FlagKind::kInt, "N", "8");
  add("--p-min", "best-first: minimum path probability of a guess, however cheap its row is", FlagKind::kFloat, "P", "0.02");
  add("-pa, --p-accept",
      "-pa, chain: minimum probability that continues a branch; if it is given, drafting is stopped by it alone, not by costs",
      FlagKind::kFloat, "P", "0.5");
  add("-ps, --p-split", "-ps, chain: minimum probability that opens another branch", FlagKind::kFloat, "P", "0.1");
  add("-pr, --p-recovery", "-pr, chain: added to -pa and -ps for every run since the text last grew", FlagKind::kFloat, "P", "0");
  add("-pd, --p-decay", "-pd, chain: subtracted from -pa and -ps for every attempt to guess that failed since the text last grew",
      FlagKind::kFloat, "P", "0");
  add("-np, --parallel", "-np, chain: maximum number of branches", FlagKind::kInt, "N", "1");
  add("--tree",
      "static-tree: its shape: a file of yamata profile --tree-out (with --draft: that of its trees with so many guesses), or one of "
      "yamata acceptance --json, from whose rates a tree of --draft guesses is built; acceptance replays all trees of the file",
      FlagKind::kFile, "FILE");
  add("--tree-depth", "dynamic-tree: maximum depth", FlagKind::kInt, "K", "4");
  add("--tree-children", "dynamic-tree: maximum number of guesses after one token", FlagKind::kInt, "M", "32");
  add("--sequences", "multi-sequence: fixed number of sequences (0: by the probabilities of their first tokens)", FlagKind::kInt, "N", "0");
  add("--budget",
      "multi-sequence: fixed number of guesses of all sequences together (0: as many as are drafted during a run, at most --draft)",
      FlagKind::kInt, "N", "0");
  add("--no-lookup", "Do not guess from earlier passages of this text or earlier texts; only from drafts and heads");
  add("--prompt-lookup",
      "Baseline: guess what followed the first earlier passage with the same last N tokens, or N - 1, ..., 1 (prompt lookup decoding), "
      "in place of suffix decoding (0: not)",
      FlagKind::kInt, "N", "0");
  add("--datastore",
      "Baseline: guess from the texts of this file alone, which yamata tokenize --datastore has written (REST), in place of suffix "
      "decoding",
      FlagKind::kFile, "FILE");
  add("--lookahead",
      "Baseline: Lookahead decoding with a window of W tokens and at most G n-grams of N tokens, without a draft; with --policy "
      "dynamic-tree",
      FlagKind::kWord, "W,N,G");
  add("--suffix-store", "Keep generated text in this file, and guess from it in later jobs", FlagKind::kFile, "FILE");
  add("--draft-units", "Compute units of drafts and heads, written as for --units (auto: those of --units)", FlagKind::kWord, "UNITS",
      "auto");
  add("--cancel-route",
      "Whom rank 0 tells of a cancelled run: direct (every stage at once) or backward (the last stage, which tells the one before it, and "
      "so on, as in PipeInfer)",
      FlagKind::kWord, "ROUTE", "direct");
  add("--no-async", "Ablation: draft on rank 0, alternating with its layers");
  add("--no-tree-reuse", "Ablation: discard the tree whenever a guess is accepted, and draft again from the last token");
  add("--no-continuous", "Ablation: one speculative run at a time");
  add("--no-cancel", "Ablation: do not cancel runs that are no longer needed");
  add("--no-multibuffer", "Ablation: one cache partition for guesses, so they are on a single path of the tree at a time");
}

namespace {

std::vector<std::string> read_draft_files(const GivenFlags& r) {
  std::vector<std::string> drafts;
  if (!r.given("model-draft")) return drafts;
  require(r.number<int>("drafters") >= 1, "--drafters", "at least 1");
  for (const std::string& draft : r.list("model-draft")) {
    for (int i = 0; i < r.number<int>("drafters"); ++i) drafts.push_back(draft);
  }
  require(drafts.size() <= 16, "--drafters", "such that there are 16 drafters at most");
  return drafts;
}

std::string policy_name(const GivenFlags& r, const PolicyDefaults& defaults) {
  const std::string name = r.text("policy");
  const bool chain = r.given("p-accept") || r.given("p-split") || r.given("p-recovery") || r.given("p-decay") || r.given("parallel");
  require(!chain || name == "auto" || name == "chain", "--policy", "chain where -pa, -ps, -pr, -pd or -np are given");
  require_word(name, {"best-first", "chain", "static-tree", "dynamic-tree", "multi-sequence", "auto"}, "--policy",
               "best-first, chain, static-tree, dynamic-tree, multi-sequence or auto");
  if (!r.given("policy") && !defaults.policy.empty()) return defaults.policy;
  return name != "auto" ? name : chain ? "chain" : r.given("tree") ? "static-tree" : "best-first";
}

PolicyOptions read_policy(const GivenFlags& r, const PolicyDefaults& defaults) {
  PolicyOptions policy;
  policy.name = policy_name(r, defaults);
  policy.draft = r.given("draft") || defaults.draft == 0 ? r.number<int>("draft") : defaults.draft;
  policy.threshold = r.number<float>("p-min");
  policy.accept = r.number<float>("p-accept");
  policy.at_any_cost = r.given("p-accept");
  policy.split = r.number<float>("p-split");
  policy.recovery = r.number<float>("p-recovery");
  policy.decay = r.number<float>("p-decay");
  policy.branches = r.number<int>("parallel");
  require(policy.draft >= 1 && policy.draft <= 128, "--draft", "between 1 and 128");
  require(policy.branches >= 1 && policy.branches <= 16, "-np", "between 1 and 16");
  require(policy.threshold >= 0 && policy.threshold <= 1, "--p-min", "between 0 and 1");
  require(policy.accept >= 0 && policy.accept <= 1, "-pa", "between 0 and 1");
  require(policy.split >= 0 && policy.split <= 1, "-ps", "between 0 and 1");
  policy.depth = r.number<int>("tree-depth");
  policy.children = r.number<int>("tree-children");
  require(policy.depth >= 1 && policy.depth <= 64, "--tree-depth", "between 1 and 64");
  require(policy.children >= 1 && policy.children <= 64, "--tree-children", "between 1 and 64");
  policy.sequences = r.number<int>("sequences");
  policy.budget = r.number<int>("budget");
  require(policy.sequences >= 0 && policy.sequences <= 16, "--sequences", "between 0 and 16");
  require(policy.budget >= 0 && policy.budget <= 64, "--budget", "between 0 and 64");
  policy.draft = std::max(policy.draft, policy.budget);
  if (const std::string file = r.text("tree"); !file.empty()) {
    require(policy.name == "static-tree", "--policy", "static-tree where --tree is given");
    policy.tree = read_tree(file, policy.draft, r.given("draft"));
    policy.draft = policy.tree->width() - 1;
  }
  return policy;
}

}  // namespace

void add_draft_heads(Flags& flags) {
  auto add = flags.group(kSpeculationGroup);
  add("--heads",
      "Draft heads, which guess from the model's hidden states (Medusa, EAGLE-1 to 3, DGF, MTP): a safetensors file, a folder with one, "
      "or a GGUF file; repeatable",
      FlagKind::kFiles, "FILE");
  add("--mtp", "Guess with the multi-token prediction layer (nextn) of the model's own file, if it has one");
  add("--heads-kind", "Kind of the heads, if their tensors do not tell: medusa, eagle, dgf, eagle3 or nextn", FlagKind::kWord, "KIND");
  add("--heads-quant",
      "Format of the heads' matrices in memory: q8_0, q4_0 (half of q8_0's bytes, but more guesses are wrong), or stored (as in the file)",
      FlagKind::kWord, "TYPE", "q8_0");
}

void read_draft_heads(const GivenFlags& r, ModelFiles& models) {
  if (r.given("heads")) models.draft_heads = r.list("heads");
  require(models.draft_heads.size() <= 8, "--heads", "given 8 times at most");
  models.mtp = r.given("mtp");
  if (models.mtp) models.draft_heads.push_back(models.target);
  models.draft_heads_kind = r.text("heads-kind");
  require(models.draft_heads_kind.empty() || draft_heads::find_kind(models.draft_heads_kind), "--heads-kind",
          "medusa, eagle, dgf, eagle3 or nextn");
  const auto quant = r.text("heads-quant");
  require(quant == "q8_0" || quant == "q4_0" || quant == "stored", "--heads-quant", "q8_0, q4_0 or stored");
  models.draft_heads_matrices = quant == "q8_0"   ? draft_heads::MatrixType(TensorType::Q8_0)
                                : quant == "q4_0" ? draft_heads::MatrixType(TensorType::Q4_0)
                                                  : std::nullopt;
}

void read_drafts(const GivenFlags& r, JobOptions& job) {
  job.models.drafts = read_draft_files(r);
  job.layout.draft_on_head = r.given("no-async");
  job.compute.draft_units = parse_units(r.text("draft-units"), "--draft-units");
}

LookaheadOptions read_lookahead(const GivenFlags& r) {
  LookaheadOptions options;
  const std::string text = r.text("lookahead");
  if (text.empty()) return options;
  constexpr const char* kShape = "three numbers W,N,G from 1 up, N at least 2, with (W + G) (N - 1) at most 65, such as 7,5,7";
  const std::vector<std::string> words = split_list(text);
  require(words.size() == 3, "--lookahead", kShape);
  std::array<int, 3> numbers{};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto [end, error] = std::from_chars(words[i].data(), words[i].data() + words[i].size(), numbers[i]);
    require(error == std::errc{} && end == words[i].data() + words[i].size() && numbers[i] >= 1 && numbers[i] <= LookaheadOptions::kMost,
            "--lookahead", kShape);
  }
  options = {.window = numbers[0], .ngram = numbers[1], .guesses = numbers[2]};
  require(options.ngram >= 2 && options.nodes() <= LookaheadOptions::kMost, "--lookahead", kShape);
  return options;
}

SpeculationOptions read_speculation(const GivenFlags& r, const PolicyDefaults& defaults) {
  SpeculationOptions speculation;
  speculation.policy = read_policy(r, defaults);
  speculation.tree_file = r.text("tree");
  speculation.lookup = !r.given("no-lookup");
  speculation.prompt_lookup = r.number<int>("prompt-lookup");
  require(speculation.prompt_lookup >= 0 && speculation.prompt_lookup <= 64, "--prompt-lookup", "between 0 and 64");
  require(speculation.prompt_lookup == 0 || speculation.looks_up(), "--prompt-lookup",
          "left out with --no-lookup and --policy chain, which do not guess from texts");
  speculation.datastore = r.text("datastore");
  require(speculation.datastore.empty() || (speculation.looks_up() && speculation.prompt_lookup == 0), "--datastore",
          "left out with --no-lookup, --prompt-lookup and --policy chain, which do not guess from other texts");
  speculation.lookahead = read_lookahead(r);
  require(!speculation.lookahead.on() || (speculation.lookup && speculation.datastore.empty() && speculation.prompt_lookup == 0),
          "--lookahead", "used without --no-lookup, --prompt-lookup and --datastore");
  speculation.suffix_store = r.text("suffix-store");
  require(speculation.suffix_store.empty() || speculation.looks_up(), "--suffix-store",
          "left out with --no-lookup and --policy chain, which do not guess from texts");
  speculation.continuous = !r.given("no-continuous");
  speculation.reuse_tree = !r.given("no-tree-reuse");
  speculation.cancel = !r.given("no-cancel");
  const auto route = r.text("cancel-route");
  require_word(route, {"direct", "backward"}, "--cancel-route", "direct or backward");
  speculation.cancel_route = route == "backward" ? CancelRoute::kBackward : CancelRoute::kDirect;
  speculation.multibuffer = !r.given("no-multibuffer");
  return speculation;
}

}  // namespace yamata
