#include "launch/commands/bench_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr char kJobs[] = "Job";
constexpr int kMaxTokens = 1 << 20;
constexpr int kMaxWidth = 1024;

std::vector<CacheType> parse_types(const char* flag, const std::string& text) {
  std::vector<CacheType> types;
  for (const std::string& word : split_list(text)) types.push_back(parse_cache_type(word, flag));
  return types;
}

/// Pairs PP,TG, one for each occurrence of the flag.
std::vector<BenchTest> parse_pairs(const GivenFlags& r) {
  std::vector<BenchTest> pairs;
  for (const std::string& pair : r.all("pg")) {
    const auto numbers = parse_counts("-pg", pair, 1, kMaxTokens);
    if (numbers.size() != 2) throw UsageError(fmt::format("-pg: '{}' is no pair; write PP,TG, such as 512,128", pair));
    pairs.push_back({numbers[0], numbers[1]});
  }
  return pairs;
}

std::vector<BenchTest> parse_tests(const GivenFlags& r) {
  const auto prompts = parse_counts("-p", r.joined("n-prompt"), 0, kMaxTokens);
  const auto generates = parse_counts("-n", r.joined("n-gen"), 0, kMaxTokens);
  const auto depths = parse_counts("-d", r.joined("n-depth"), 0, kMaxTokens);
  const auto widths = r.given("widths") ? parse_counts("--widths", r.joined("widths"), 1, kMaxWidth) : std::vector<int>{};
  const auto pairs = parse_pairs(r);
  std::vector<BenchTest> tests;
  for (const int depth : depths) {
    const auto add = [&](BenchTest test) {
      test.depth = depth;
      if (test.tokens() > 0) tests.push_back(test);
    };
    for (const int n : prompts) add({.prompt = n});
    for (const int n : generates) add({.generate = n});
    for (const BenchTest& pair : pairs) add(pair);
    for (const int n : widths) add({.width = n});
  }
  if (tests.empty()) throw UsageError("nothing to measure: give -p, -n, -pg or --widths a number above 0");
  return tests;
}

std::string parse_format(const char* flag, const std::string& name, bool may_be_none) {
  for (const char* known : {"md", "csv", "json", "jsonl", "sql"}) {
    if (name == known) return name;
  }
  if (may_be_none && name == "none") return name;
  throw UsageError(fmt::format("{} must be md, csv, json, jsonl or sql{}, not '{}'", flag, may_be_none ? ", or none" : "", name));
}

}  // namespace

std::string BenchTest::name() const {
  std::string text;
  if (prompt) text = fmt::format("pp{}", prompt);
  if (generate) text += fmt::format("{}tg{}", prompt ? "+" : "", generate);
  if (width) text = fmt::format("w{}", width);
  return depth ? fmt::format("{} @ d{}", text, depth) : text;
}

int BenchOptions::context() const {
  int most = 1;
  for (const BenchTest& test : tests) most = std::max(most, test.depth + test.tokens());
  return most;
}

bool BenchOptions::has_widths() const {
  return std::any_of(tests.begin(), tests.end(), [](const BenchTest& test) { return test.width > 0; });
}

Flags bench_flags() {
  auto flags =
      describe("bench",
               "Measures how fast a model runs: prompts, generation, runs of several tokens; also under mpirun.\n"
               "A LIST has numbers and ranges: 512,1024 or 1-16; 1-9+4 is 1,5,9; 64-512*2 is 64,128,256,512. Every test is measured "
               "with every combination of the job's lists.");
  auto tests = flags.group("Test");
  tests("-p, --n-prompt", "Tokens of the prompt (0: no such test)", FlagKind::kWord, "LIST", "512");
  tests("-n, --n-gen", "Tokens to generate, one at a time (0: no such test)", FlagKind::kWord, "LIST", "128");
  tests("-pg, --pg", "-pg, a prompt and generation after it, timed together; repeatable", FlagKind::kWord, "PP,TG");
  tests("--widths", "Runs of this many tokens with all their logits, as in the verification of guesses", FlagKind::kWord, "LIST");
  tests("-d, --n-depth", "Tokens in the cache before the test", FlagKind::kWord, "LIST", "0");
  tests("-r, --repetitions", "Repetitions of each test", FlagKind::kInt, "N", "5");
  tests("--no-warmup", "Do not run each test once before it is timed");
  auto jobs = flags.group(kJobs);
  jobs("-t, --threads", kThreadsOfRanks, FlagKind::kWord, "LIST", "0");
  jobs("-b, --batch-size", "Prompt tokens per run (default: 64; with a GPU 512)", FlagKind::kWord, "LIST");
  add_cache_types(flags, kJobs, "LIST");
  auto output = flags.group("Output");
  output("-o, --output", "Format on standard output: md, csv, json, jsonl or sql", FlagKind::kWord, "FORMAT", "md");
  output("-oe, --output-err", "-oe, format on standard error: one of these, or none", FlagKind::kWord, "FORMAT", "none");
  add_ranks(flags);
  return flags;
}

BenchOptions read_bench(const GivenFlags& r) {
  BenchOptions o;
  o.job.models.target = read_model(r);
  o.models = r.all("model");
  o.tests = parse_tests(r);
  o.threads = parse_thread_counts("-t", r.joined("threads"), o.measure_threads);
  o.k_types = parse_types("-ctk", r.joined("cache-type-k"));
  o.v_types = parse_types("-ctv", r.joined("cache-type-v"));
  o.repetitions = number_in(r, "repetitions", 1, 100000, "between 1 and 100000", "-r").value_or(o.repetitions);
  o.output = parse_format("-o", r.text("output"), false);
  o.error_output = parse_format("-oe", r.text("output-err"), true);
  o.warm_up = !r.given("no-warmup");
  read_ranks(r, o.job);
  o.batches = r.given("batch-size") ? parse_counts("-b", r.joined("batch-size"), 1, 8192) : std::vector<int>{default_batch(o.job.compute)};
  return o;
}

std::vector<JobOptions> jobs_of(const BenchOptions& bench) {
  std::vector<JobOptions> jobs;
  JobOptions job = bench.job;
  job.layout.strategy = Strategy::kIterative;
  job.cache.context = bench.context();
  job.cache.shorter_context = "lower -p, -n, -pg or -d";
  for (const std::string& model : bench.models) {
    job.models.target = model;
    for (const int threads : bench.threads) {
      job.compute.threads = threads;
      job.compute.measure_threads = bench.measure_threads && threads == 0;
      for (const int batch : bench.batches) {
        job.cache.batch = batch;
        for (const CacheType k : bench.k_types) {
          for (const CacheType v : bench.v_types) {
            job.cache.types = {k, v};
            jobs.push_back(job);
          }
        }
      }
    }
  }
  return jobs;
}

}  // namespace yamata
