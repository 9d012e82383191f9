// yamata run: generate text from a prompt.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "launch/job.hpp"
#include "launch/output_file.hpp"
#include "launch/report.hpp"
#include "node/error.hpp"
#include "src/tokenizer/tokenizer.hpp"

namespace yamata {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// FNV-1a over the bits of logits rows.
class Checksum {
 public:
  void add(std::span<const float> row) {
    for (const float value : row) {
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      hash_ = (hash_ ^ bits) * 0x100000001b3u;
    }
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

class Generator {
 public:
  Generator(Job& job, Head& head, const Tokenizer& tokenizer)
      : options_(job.options()), head_(head), tokenizer_(tokenizer), stream_(tokenizer), sampler_(options_.sampling) {
    result_.with_checksum = options_.logits_checksum;
    if (options_.ignore_eos) {
      std::vector<TokenId> ends;
      for (TokenId id = 0; id < tokenizer.size(); ++id) {
        if (tokenizer.ends_generation(id)) ends.push_back(id);
      }
      sampler_.ban(std::move(ends));
    }
  }

  /// Generates until -n, the end of the text or of the context; Interrupted leaves what there is in result().
  void generate(const std::vector<TokenId>& prompt, int context) {
    history_ = prompt;
    result_.prompt_tokens = static_cast<int>(prompt.size());
    const auto begin = Clock::now();
    std::vector<float> logits = prefill(prompt);
    result_.prefill_s = seconds_since(begin);
    const auto decode = Clock::now();
    while (true) {
      ++result_.target_evaluations;
      const TokenId id = choose(logits);
      result_.token_times_s.push_back(result_.token_ids.empty() ? 0.0 : seconds_since(decode));
      result_.token_ids.push_back(id);
      history_.push_back(id);
      if (tokenizer_.ends_generation(id)) break;
      show(stream_.push(id));
      if (static_cast<int>(result_.token_ids.size()) >= options_.generate) break;
      if (static_cast<int>(history_.size()) > context) {
        fmt::print(stderr, "\nyamata: the context of {} tokens is full; raise -c for a longer text\n", context);
        break;
      }
      submit({&history_.back(), 1}, static_cast<std::int32_t>(history_.size()) - 1, true);
      logits = head_.wait_logits();
    }
  }
  void finish() {
    show(stream_.finish());
    std::fputc('\n', stdout);
    std::fflush(stdout);
  }
  RunResult& result() { return result_; }

 private:
  /// The prompt goes in chunks, so that all stages work at the same time; logits of its last token.
  std::vector<float> prefill(const std::vector<TokenId>& prompt) {
    const auto chunk = static_cast<std::size_t>(options_.batch);
    std::vector<float> logits;
    for (std::size_t at = 0; at < prompt.size(); at += chunk) {
      while (head_.outstanding() >= head_.useful_depth()) head_.wait_logits();
      const std::size_t n = std::min(chunk, prompt.size() - at);
      submit(std::span(prompt).subspan(at, n), static_cast<std::int32_t>(at), at + n == prompt.size());
    }
    while (head_.outstanding() > 0) logits = head_.wait_logits();
    return logits;
  }

  void submit(std::span<const TokenId> tokens, std::int32_t position, bool want_last) {
    wire::Record run;
    run.tokens.assign(tokens.begin(), tokens.end());
    for (std::size_t i = 0; i < tokens.size(); ++i) run.placements.push_back({position + static_cast<std::int32_t>(i), -1, {0, 1}});
    if (want_last) run.wanted.push_back(static_cast<std::int32_t>(tokens.size()) - 1);
    head_.submit(std::move(run));
    ++result_.runs_started;
  }

  TokenId choose(std::vector<float>& logits) {
    if (options_.logits_checksum) {
      checksum_.add(logits);
      result_.logits_checksum = checksum_.value();
    }
    return sampler_.sample(logits, history_, static_cast<std::int64_t>(history_.size()));
  }

  void show(const std::string& text) {
    result_.text += text;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  const Options& options_;
  Head& head_;
  const Tokenizer& tokenizer_;
  StreamDecoder stream_;
  Sampler sampler_;
  Checksum checksum_;
  std::vector<TokenId> history_;
  RunResult result_;
};

std::vector<TokenId> read_prompt(const Options& options, const Tokenizer& tokenizer, int context) {
  if (options.prompt && !options.prompt_file.empty()) throw UsageError("both -p and -f are given; choose one");
  if (!options.prompt && options.prompt_file.empty()) throw UsageError("no prompt given; write one with -p TEXT or -f FILE (-f - reads standard input)");
  const std::string text = options.prompt ? *options.prompt : read_text(options.prompt_file);
  std::vector<TokenId> ids = tokenizer.encode(text, true, true);
  if (ids.empty()) throw UsageError("the prompt is empty; write one with -p TEXT or -f FILE");
  if (static_cast<int>(ids.size()) > context) {
    throw UsageError(fmt::format("the prompt has {} tokens, the context holds {}; raise -c or shorten the prompt", ids.size(), context));
  }
  return ids;
}

void write_results(const Options& options, const RunResult& result) {
  fmt::print(stderr, "{}", to_table(result));
  if (!options.json_file.empty()) write_file(options.json_file, to_json(result));
  if (!options.csv_file.empty()) write_file(options.csv_file, to_csv(result));
}

}  // namespace

void run_command(Job& job) {
  const Options& options = job.options();
  const wire::Hello hello = job.open();
  const auto tokenizer = Tokenizer::load(job.file(), options.pre);
  const std::vector<TokenId> prompt = read_prompt(options, *tokenizer, job.context());
  Head head(job.transport(), job.cluster());
  head.start(hello, job.file(), job.hyperparameters(), job.unit());

  Generator generator(job, head, *tokenizer);
  bool interrupted = false;
  try {
    generator.generate(prompt, job.context());
  } catch (const Interrupted&) {
    interrupted = true;
  }
  generator.finish();
  generator.result().per_rank = head.stop(static_cast<int>(interrupted ? ExitCode::kInterrupted : ExitCode::kDone));
  write_results(options, generator.result());
  if (interrupted) throw Interrupted{};
}

}  // namespace yamata
