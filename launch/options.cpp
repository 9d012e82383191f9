#include "launch/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cxxopts.hpp>
#include <map>
#include <set>

#include "launch/flag_values.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr const char* kCommands = R"(yamata: one large language model across the machines you have

usage: yamata COMMAND [flags]            one machine
       mpirun ... yamata COMMAND [flags] several: one rank per machine

commands
  run         generate text from a prompt
  perplexity  how well the model predicts a text
  tokenize    token ids of a text
  inspect     what a model file holds, and what each rank of a split would
  bench       how fast a model runs, test by test
  profile     how fast this machine could be, and how near a model comes to it
  quantize    a model file to another format, such as Q4_K_M
  simulate    what more ranks, a faster network or a better draft would give, without any of them
  --version   version

'yamata COMMAND --help' lists the flags of a command.
)";

cxxopts::Options describe(const std::string& command, const std::string& what) {
  cxxopts::Options flags("yamata " + command, what);
  flags.set_width(110);
  flags.add_options("General")("h,help", "Print this help")("m,model", "Model, a GGUF file (the first part of a split one)",
                                                            cxxopts::value<std::string>(), "FILE");
  return flags;
}

void add_numa(cxxopts::Options& flags, const char* group) {
  flags.add_options(group)("numa",
                           "Threads and memory on machines of several memories: auto (neighbouring cores), distribute (over all), "
                           "off (as the system puts them)",
                           cxxopts::value<std::string>()->default_value("auto"), "POLICY");
}

/// The flags of every command that runs a model on several ranks.
void add_ranks(cxxopts::Options& flags) {
  flags.add_options("Cluster")(
      "layer-split,mpi-layer-split",
      "Share of the layers per rank, such as 0.5,0.3,0.2; auto: by measured speed; measure: measured anew; bytes: by bytes alone",
      cxxopts::value<std::string>()->default_value("auto"), "SPLIT");
  add_numa(flags, "Cluster");
  flags.add_options("Cluster")("no-repack",
                               "Keep the weights as they lie in the file: less memory where several ranks share it, but slower");
  flags.add_options("Cluster")("timeout", "End the job when a rank is silent or stalled for this long",
                               cxxopts::value<double>()->default_value("120"), "SECONDS");
}

void add_cluster(cxxopts::Options& flags) {
  add_ranks(flags);
  flags.add_options("Cluster")("t,threads",
                               "Compute threads of each rank (0: as many as prove fastest, up to its share of its machine's cores; "
                               "measure: the same, measured anew rather than remembered)",
                               cxxopts::value<std::string>()->default_value("0"), "N");
  flags.add_options("Cluster")("b,batch-size", "Prompt tokens that go through the pipeline together",
                               cxxopts::value<int>()->default_value("64"), "N");
}

void add_context(cxxopts::Options& flags, const char* fallback) {
  flags.add_options("Context")("c,ctx-size", "Tokens the context holds (0: what the model was trained for, at most 4096)",
                               cxxopts::value<int>()->default_value(fallback), "N");
  flags.add_options("Context")("cache-type", "Storage of keys and values: f16, f32 or q8_0",
                               cxxopts::value<std::string>()->default_value("f16"), "TYPE");
  flags.add_options("Context")("cache-type-k", "-ctk, of keys alone", cxxopts::value<std::string>(), "TYPE");
  flags.add_options("Context")("cache-type-v", "-ctv, of values alone", cxxopts::value<std::string>(), "TYPE");
}

void add_text(cxxopts::Options& flags) {
  flags.add_options("Text")("p,prompt", "The text, as it is", cxxopts::value<std::string>(), "TEXT");
  flags.add_options("Text")("f,file", "File with the text (-: standard input)", cxxopts::value<std::string>(), "FILE");
  flags.add_options("Text")("pre", "Force a pre-tokenizer by name", cxxopts::value<std::string>()->default_value(""), "NAME");
}

void add_sampling(cxxopts::Options& flags) {
  const auto real = [](const char* fallback) { return cxxopts::value<float>()->default_value(fallback); };
  auto add = flags.add_options("Sampling");
  add("temp", "Temperature (0: always the most probable token)", real("0"), "T");
  add("top-k", "Sample among the K most probable tokens (0: off)", cxxopts::value<int>()->default_value("40"), "K");
  add("top-p", "Sample among the most probable tokens that reach P together (1: off)", real("0.95"), "P");
  add("min-p", "Leave out tokens less probable than P times the best (0: off)", real("0.05"), "P");
  add("repeat-penalty", "Make repeated tokens less probable (1: off)", real("1"), "R");
  add("repeat-last-n", "Tokens the penalty looks back", cxxopts::value<int>()->default_value("64"), "N");
  add("s,seed", "Seed of the draws", cxxopts::value<std::uint64_t>()->default_value("0"), "SEED");
  add("ignore-eos", "Never choose a token that ends the text");
}

constexpr char kSpeculation[] = "Speculation (the text stays the same)";

void add_speculation(cxxopts::Options& flags, const char* strategies, const char* strategy,
                     const char* drafters = "Run each draft model this many times") {
  const auto real = [](const char* fallback) { return cxxopts::value<float>()->default_value(fallback); };
  auto add = flags.add_options(kSpeculation);
  add("model-draft", "-md: a draft model of the same family; several times for several", cxxopts::value<std::vector<std::string>>(),
      "FILE");
  add("drafters", drafters, cxxopts::value<int>()->default_value("1"), "N");
  add("strategy", strategies, cxxopts::value<std::string>()->default_value(strategy), "NAME");
  add("policy", "Which guesses run next: best-first or chain (auto: chain where one of its flags is given)",
      cxxopts::value<std::string>()->default_value("auto"), "NAME");
  add("draft", "Most guesses of one run", cxxopts::value<int>()->default_value("8"), "N");
  add("p-least", "best-first: least path probability worth a guess, however cheap its row is", real("0.02"), "P");
  add("p-accept", "-pa, chain: least probability that continues a branch", real("0.5"), "P");
  add("p-split", "-ps, chain: least probability that opens another branch", real("0.1"), "P");
  add("p-recovery", "-pr, chain: added to both for every run since the last hit", real("0"), "P");
  add("p-decay", "-pd, chain: taken off both whenever nothing was probable enough", real("0"), "P");
  add("parallel", "-np, chain: branches at most", cxxopts::value<int>()->default_value("1"), "N");
  add("no-lookup", "best-first: do not also guess what followed when the text last read like this; only what drafts say");
  add("no-async", "Ablation: draft on rank 0, in turn with its layers");
  add("no-continue-tip", "Guess anew from the last token at every hit, as the paper does, rather than go on below it");
  add("no-continuous", "Ablation: one speculative run at a time");
  add("no-cancel", "Ablation: compute runs to the end though nobody needs them");
  add("no-multibuffer", "Ablation: one cache partition for guesses");
}

/// The two-letter flags people know, spelled out for the parser.
std::string spelled_out(const std::string& word) {
  static const std::map<std::string, std::string> kSpelled{
      {"-md", "--model-draft"}, {"-pa", "--p-accept"},      {"-ps", "--p-split"},       {"-pr", "--p-recovery"}, {"-pd", "--p-decay"},
      {"-np", "--parallel"},    {"-ctk", "--cache-type-k"}, {"-ctv", "--cache-type-v"}, {"-pg", "--pg"},         {"-oe", "--output-err"}};
  const auto found = kSpelled.find(word);
  return found == kSpelled.end() ? word : found->second;
}

/// Habits of other programs that would otherwise be misread: long flags with one dash, and '=' after a short one.
void refuse_habits(const std::string& word) {
  if (word.size() < 3 || word[0] != '-' || !std::isalpha(static_cast<unsigned char>(word[1])) || spelled_out(word) != word) return;
  if (word[2] == '=') throw UsageError(fmt::format("'{}': write '{} {}', without '='", word, word.substr(0, 2), word.substr(3)));
  if (std::isalpha(static_cast<unsigned char>(word[2])))
    throw UsageError(fmt::format("'{}' is not a flag; long flags have two dashes: -{}", word, word));
}

/// The flag whose value the parser could not read.
std::string flag_before(const std::string& complaint, int argc, const char* const* argv) {
  for (int i = 2; i < argc; ++i) {
    if (argv[i][0] != '\0' && complaint.find(fmt::format("'{}'", argv[i])) != std::string::npos && argv[i - 1][0] == '-')
      return fmt::format("{}: ", argv[i - 1]);
  }
  return "";
}

/// Whether the word after this one is a text, whatever it looks like.
bool takes_text(const std::string& word) {
  static const std::set<std::string> kTakesText{"-p",     "--prompt", "-f",      "--file", "-m",     "--model",  "-md", "--model-draft",
                                                "--json", "--csv",    "--trace", "--pre",  "--from", "--imatrix"};
  return kTakesText.contains(word);
}

cxxopts::Options run_flags() {
  auto flags = describe("run", "Generate text from a prompt; text goes to stdout, statistics to stderr.");
  add_text(flags);
  flags.add_options("Text")("n,predict", "Tokens to generate", cxxopts::value<int>()->default_value("128"), "N");
  add_sampling(flags);
  add_speculation(flags,
                  "iterative, speculative or pipeinfer, which without a draft guesses only what the text repeats (auto: pipeinfer with a "
                  "draft, on a single rank speculative, without one iterative)",
                  "auto");
  add_context(flags, "0");
  add_cluster(flags);
  flags.add_options("Output")("json", "Write results and statistics to this file", cxxopts::value<std::string>(), "FILE");
  flags.add_options("Output")("csv", "Write statistics as one CSV row with a header", cxxopts::value<std::string>(), "FILE");
  flags.add_options("Output")("trace", "Write what every rank did when, in Chrome's trace format (open it in ui.perfetto.dev)",
                              cxxopts::value<std::string>(), "FILE");
  flags.add_options("Output")("logits-checksum", "Add a hash over the logits' bits to the JSON");
  return flags;
}

cxxopts::Options perplexity_flags() {
  auto flags = describe("perplexity", "Perplexity of a text, over chunks of the context; the second half of each is scored.");
  add_text(flags);
  add_context(flags, "512");
  flags.add_options("Text")("chunks", "Chunks to score (0: all)", cxxopts::value<int>()->default_value("0"), "N");
  add_cluster(flags);
  flags.add_options("Output")("json", "Write the result to this file", cxxopts::value<std::string>(), "FILE");
  return flags;
}

cxxopts::Options tokenize_flags() {
  auto flags = describe("tokenize", "Token ids of a text, a line per token.");
  add_text(flags);
  flags.add_options("Output")("ids", "One list [1, 2, 3]")("no-bos", "Do not add BOS or EOS")(
      "no-special", "Take the text of special tokens as plain text");
  return flags;
}

cxxopts::Options inspect_flags() {
  auto flags = describe("inspect", "What a model file holds, and what each rank of a split would.");
  flags.add_options("Output")("tensors", "List every tensor");
  flags.add_options("Cluster")("layer-split,mpi-layer-split", "Show this split", cxxopts::value<std::string>()->default_value("auto"),
                               "SPLIT");
  flags.add_options("Context")("c,ctx-size", "Tokens the context holds", cxxopts::value<int>()->default_value("0"), "N");
  return flags;
}

cxxopts::Options bench_flags() {
  auto flags = describe("bench", "How fast a model runs: prompts, generation, runs of several tokens; also under mpirun.");
  declare_bench(flags);
  add_ranks(flags);
  return flags;
}

cxxopts::Options profile_flags() {
  auto flags = describe("profile", "What this machine can do at most, and with -m how near to it a model comes. One process, no mpirun.");
  declare_profile(flags);
  add_numa(flags, "Machine");
  return flags;
}

cxxopts::Options simulate_flags() {
  auto flags =
      describe("simulate", "Plays whole jobs in virtual time: the program itself, on machines described by numbers. Needs no model.");
  declare_simulation(flags);
  add_speculation(flags, "Which to compare", "iterative,speculative,pipeinfer",
                  "How many, or with -md of each model; not given: as many as the run of --from had; 0: none");
  flags.add_options("Output")("json", "Write all figures to this file", cxxopts::value<std::string>(), "FILE");
  flags.add_options("Output")("csv", "Write the table as CSV", cxxopts::value<std::string>(), "FILE");
  return flags;
}

cxxopts::Options flags_of(const std::string& command) {
  static const std::map<std::string, cxxopts::Options (*)()> kFlags{
      {"run", run_flags},     {"perplexity", perplexity_flags}, {"tokenize", tokenize_flags}, {"inspect", inspect_flags},
      {"bench", bench_flags}, {"profile", profile_flags},       {"quantize", quantize_flags}, {"simulate", simulate_flags}};
  const auto found = kFlags.find(command);
  if (found == kFlags.end()) throw UsageError(fmt::format("unknown command '{}'; 'yamata --help' lists them", command));
  return found->second();
}

/// The first flag given that says how to guess and does nothing where no draft model does; empty: none.
std::string idle_guessing_flag(const cxxopts::Options& flags, const cxxopts::ParseResult& r, bool looks_up) {
  const auto& group = flags.group_help(kSpeculation).options;
  for (const auto& given : r.arguments()) {
    const bool of_drafts = given.key() == "drafters" || given.key() == "no-async";
    const bool guesses = given.key() != "strategy" && (of_drafts || !looks_up) &&
                         std::any_of(group.begin(), group.end(), [&](const cxxopts::HelpOptionDetails& flag) {
                           return std::find(flag.l.begin(), flag.l.end(), given.key()) != flag.l.end();
                         });
    if (guesses) return "--" + given.key();
  }
  return "";
}

Options read(const std::string& command, const cxxopts::ParseResult& r) {
  Options o;
  o.command = command;
  if (command == "quantize") {
    o.quantize = read_quantize(r);
    return o;
  }
  const auto has = [&](const char* name) {
    for (const auto& pair : r.arguments()) {
      if (pair.key() == name) return true;
    }
    return false;
  };
  const bool simulates = command == "simulate", profiles = command == "profile";
  if (!simulates && !profiles && (!has("model") || r["model"].as<std::string>().empty()))
    throw UsageError("no model given; name one with -m FILE.gguf");
  if (has("model")) o.model = r["model"].as<std::string>();
  if (has("prompt")) o.prompt = r["prompt"].as<std::string>();
  if (has("file")) o.prompt_file = r["file"].as<std::string>();
  if (has("json")) o.json_file = r["json"].as<std::string>();
  if (has("trace")) o.trace_file = r["trace"].as<std::string>();
  if (has("csv")) o.csv_file = r["csv"].as<std::string>();
  o.ignore_eos = has("ignore-eos");
  o.logits_checksum = has("logits-checksum");
  if (o.logits_checksum && o.json_file.empty()) throw UsageError("--logits-checksum goes into the JSON; name a file with --json FILE");
  o.ids = has("ids");
  o.no_bos = has("no-bos");
  o.no_special = has("no-special");
  o.tensors = has("tensors");
  o.no_async = has("no-async");
  o.no_continuous = has("no-continuous");
  o.no_continue_tip = has("no-continue-tip");
  o.no_cancel = has("no-cancel");
  o.no_multibuffer = has("no-multibuffer");
  o.no_lookup = has("no-lookup");
  o.no_repack = has("no-repack");
  if (has("model-draft")) {
    require(r["drafters"].as<int>() >= 1, "--drafters", "at least 1");
    for (const std::string& draft : r["model-draft"].as<std::vector<std::string>>()) {
      for (int i = 0; i < r["drafters"].as<int>(); ++i) o.draft_models.push_back(draft);
    }
  }
  if (simulates) o.simulation = read_simulation(r);
  if (profiles) o.profile = read_profile(r);
  if (command == "bench") o.bench = read_bench(r);
  if (command == "run" || simulates) {
    o.policy.name = r["policy"].as<std::string>();
    const bool chain = has("p-accept") || has("p-split") || has("p-recovery") || has("p-decay") || has("parallel");
    require(!chain || o.policy.name != "best-first", "--policy", "chain where -pa, -ps, -pr, -pd or -np are given");
    if (o.policy.name == "auto") o.policy.name = chain ? "chain" : "best-first";
  }
  return o;
}

template <class T>
void take(const cxxopts::ParseResult& r, const char* name, T& into) {
  try {
    into = r[name].as<T>();
  } catch (const cxxopts::exceptions::exception&) {  // the command does not have this flag
  }
}

void take_cache_types(const cxxopts::ParseResult& r, CacheTypes& types) {
  std::string both = "f16";
  take(r, "cache-type", both);
  types = parse_cache_type(both, "--cache-type");
  std::string k = both, v = both;
  take(r, "cache-type-k", k);
  take(r, "cache-type-v", v);
  types = {parse_cache_type(k, "-ctk"), parse_cache_type(v, "-ctv")};
}

void take_numa(const cxxopts::ParseResult& r, Numa& numa) {
  std::string name = "auto";
  take(r, "numa", name);
  const auto found = std::find(kNumaNames.begin(), kNumaNames.end(), name);
  require(found != kNumaNames.end(), "--numa", "auto, distribute or off");
  numa = static_cast<Numa>(found - kNumaNames.begin());
}

void read_ranks(const cxxopts::ParseResult& r, Options& o) {
  double timeout = 120;
  take(r, "layer-split", o.layer_split);
  take(r, "timeout", timeout);
  take_numa(r, o.numa);
  require(timeout >= 0.5 && timeout <= 86400, "--timeout", "between 0.5 and 86400 seconds");
  o.timeout = std::chrono::milliseconds(static_cast<long long>(timeout * 1000));
}

void take_threads(const cxxopts::ParseResult& r, Options& o) {
  if (o.command == "quantize") {
    take(r, "threads", o.threads);
    o.threads = threads_word(r).value_or(o.threads);
    return;
  }
  std::string text = "0";
  take(r, "threads", text);
  o.threads = parse_thread_count("-t", text, o.measure_threads);
}

void read_numbers(const cxxopts::ParseResult& r, Options& o) {
  take(r, "predict", o.generate);
  take(r, "ctx-size", o.context);
  take_threads(r, o);
  take(r, "batch-size", o.batch);
  take(r, "chunks", o.chunks);
  take(r, "pre", o.pre);
  take(r, "temp", o.sampling.temperature);
  take(r, "top-k", o.sampling.top_k);
  take(r, "top-p", o.sampling.top_p);
  take(r, "min-p", o.sampling.min_p);
  take(r, "repeat-penalty", o.sampling.repeat_penalty);
  take(r, "repeat-last-n", o.sampling.repeat_last_n);
  take(r, "seed", o.sampling.seed);
  if (o.command != "simulate") take(r, "strategy", o.strategy);
  take(r, "draft", o.policy.draft);
  take(r, "p-least", o.policy.threshold);
  take(r, "p-accept", o.policy.accept);
  take(r, "p-split", o.policy.split);
  take(r, "p-recovery", o.policy.recovery);
  take(r, "p-decay", o.policy.decay);
  take(r, "parallel", o.policy.branches);
  take_cache_types(r, o.cache_types);
  require(o.generate >= 1, "-n", "at least 1");
  require(o.context >= 0 && o.context <= 2147000000, "-c", "between 0 and 2147000000");
  if (o.command == "perplexity") require(o.context == 0 || o.context >= 3, "-c", "at least 3 for a perplexity");
  require(o.threads >= 0 && o.threads <= 1024, "-t", "between 0 and 1024");
  require(o.batch >= 1 && o.batch <= 8192, "-b", "between 1 and 8192");
  require(o.chunks >= 0, "--chunks", "0 or more");
  require(o.sampling.temperature >= 0, "--temp", "0 or more");
  require(o.sampling.top_k >= 0, "--top-k", "0 or more");
  require(o.sampling.top_p > 0 && o.sampling.top_p <= 1, "--top-p", "above 0 and at most 1");
  require(o.sampling.min_p >= 0 && o.sampling.min_p < 1, "--min-p", "at least 0 and below 1");
  require(o.sampling.repeat_penalty > 0, "--repeat-penalty", "above 0");
  require(o.sampling.repeat_last_n >= 0, "--repeat-last-n", "0 or more");
  require(o.strategy == "auto" || o.strategy == "iterative" || o.strategy == "speculative" || o.strategy == "pipeinfer", "--strategy",
          "iterative, speculative, pipeinfer or auto");
  require(o.policy.name == "chain" || o.policy.name == "best-first", "--policy", "chain, best-first or auto");
  require(o.policy.draft >= 1 && o.policy.draft <= 64, "--draft", "between 1 and 64");
  require(o.policy.branches >= 1 && o.policy.branches <= 16, "-np", "between 1 and 16");
  require(o.draft_models.size() <= 16, "--drafters", "such that there are 16 drafters at most");
  require(o.policy.threshold >= 0 && o.policy.threshold <= 1, "--p-least", "between 0 and 1");
  require(o.policy.accept >= 0 && o.policy.accept <= 1, "-pa", "between 0 and 1");
  require(o.policy.split >= 0 && o.policy.split <= 1, "-ps", "between 0 and 1");
  const bool needs_draft = o.strategy == "speculative" || (o.strategy == "pipeinfer" && !o.looks_up());
  if (needs_draft && o.draft_models.empty())
    throw UsageError(fmt::format("--strategy {}{} needs a draft model; name one with -md FILE.gguf", o.strategy,
                                 o.strategy == "speculative" ? "" : " with --policy chain or --no-lookup"));
}

/// cxxopts speaks of the flag in quotes of its own; one line, ours.
std::string plain(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool quote = text.compare(i, 3, "\xE2\x80\x98") == 0 || text.compare(i, 3, "\xE2\x80\x99") == 0;
    out += quote ? '\'' : text[i];
    if (quote) i += 2;
  }
  return out;
}

}  // namespace

CacheType parse_cache_type(const std::string& name, const char* flag) {
  require(name == "f16" || name == "f32" || name == "q8_0", flag, "f16, f32 or q8_0");
  return name == "f16" ? CacheType::kF16 : name == "f32" ? CacheType::kF32 : CacheType::kQ8_0;
}

Options decided(Options o, int ranks) {
  const bool named = o.layer_split.find('/') != std::string::npos;  // ranks for the draft: the layout says whether there are any
  const bool fits = ranks > static_cast<int>(o.draft_models.size()) || o.no_async || named;
  const bool beside = o.draft_models.size() == 1;  // it takes turns with rank 0's layers, where that pays
  if (o.strategy == "auto") o.strategy = o.draft_models.empty() ? "iterative" : fits ? "pipeinfer" : beside ? "speculative" : "iterative";
  if (o.strategy == "iterative") o.draft_models.clear();
  return o;
}

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  const std::string command = argc > 1 ? argv[1] : "--help";
  if (command == "--help" || command == "-h" || command == "help") {
    line.text = kCommands;
    return line;
  }
  if (command == "--version") {
    line.text = fmt::format("yamata {}\n", YAMATA_VERSION);
    return line;
  }
  cxxopts::Options flags = flags_of(command);
  try {
    std::vector<std::string> words;
    for (int i = 1; i < argc; ++i) {
      const bool text = takes_text(argv[i - 1]);
      if (!text) refuse_habits(argv[i]);
      words.push_back(text ? argv[i] : spelled_out(argv[i]));
    }
    std::vector<const char*> spelled;
    for (const std::string& word : words) spelled.push_back(word.c_str());
    const cxxopts::ParseResult result = flags.parse(argc - 1, spelled.data());
    if (!result.unmatched().empty() && command != "quantize")
      throw UsageError(fmt::format("'{}' is not a flag; 'yamata {} --help' lists them", result.unmatched()[0], command));
    if (result.count("help")) {
      line.text = flags.help();
      return line;
    }
    line.options = read(command, result);
    read_ranks(result, line.options);
    if (command != "bench" && command != "profile") read_numbers(result, line.options);  // those have lists in their place
    if (command == "run" && line.options.draft_models.empty())
      line.options.idle_guessing_flag = idle_guessing_flag(flags, result, line.options.strategy == "pipeinfer");
  } catch (const cxxopts::exceptions::exception& e) {
    const std::string complaint = plain(e.what());
    const std::string flag = flag_before(complaint, argc, argv);
    const std::size_t unfit = complaint.find(" failed to parse");
    if (!flag.empty() && complaint.starts_with("Argument ") && unfit != std::string::npos)
      throw UsageError(
          fmt::format("{}{} does not fit; 'yamata {} --help' says what the flag takes", flag, complaint.substr(9, unfit - 9), command));
    throw UsageError(fmt::format("{}{}; 'yamata {} --help' lists the flags", flag, complaint, command));
  }
  return line;
}

}  // namespace yamata
