// yamata run: generate text from a prompt.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "launch/job.hpp"
#include "launch/output/output_file.hpp"
#include "launch/output/report.hpp"
#include "launch/output/standard_output.hpp"
#include "mpi/decoding/decoder.hpp"
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

class Generator final : public DraftListener {
 public:
  Generator(Job& job, Head& head, const Tokenizer& tokenizer, std::vector<DraftLink> drafters, const DecodeOptions& decode,
            std::vector<TokenId> banned)
      : options_(job.options()),
        head_(head),
        tokenizer_(tokenizer),
        stream_(tokenizer),
        sampler_(options_.sampling),
        drafters_(std::move(drafters)),
        decoder_(
            job.transport(), head.target(), drafters_, decode,
            [this](std::vector<float>& logits, std::span<const TokenId> history) { return choose(logits, history); },
            [this](TokenId id) { return take(id); }) {
    result_.strategy = options_.strategy;
    result_.with_checksum = options_.logits_checksum;
    sampler_.ban(std::move(banned));
    head_.listen(this);
  }
  Generator(const Generator&) = delete;
  ~Generator() override { head_.listen(nullptr); }
  void on_guesses(int rank, const wire::Guesses& guesses) override { decoder_.on_guesses(rank, guesses); }
  void on_drafter_lost(int rank) override { decoder_.drop_drafter(rank); }
  bool awaits(int rank) const override { return decoder_.awaits(rank); }

  /// Generates until -n, the end of the text or of the context; Interrupted leaves what there is in result().
  void generate(const std::vector<TokenId>& prompt, int context) {
    result_.prompt_ids = prompt;
    begin_ = Clock::now();
    decoder_.begin(prompt);
    while (!decoder_.finished()) {
      const bool heard = head_.step();
      if (!decoder_.advance() && !heard) head_.rest();
    }
    const auto length = static_cast<int>(prompt.size() + result_.token_ids.size());
    const bool full = length > context && static_cast<int>(result_.token_ids.size()) < options_.generate;
    if (full && result_.finish_reason != "stop") {
      result_.finish_reason = "context";
      print_error("\nyamata: the context of {} tokens is full; raise -c for a longer text\n", context);
    }
  }
  void finish() {
    show(stream_.finish());
    print_out("\n");
    std::fflush(stdout);
    result_.counters = decoder_.counters();
    if (!drafters_.empty()) result_.first_choice_rate = drafters_.front().guesser().first_choice_rate();
  }
  Generation& result() { return result_; }

 private:
  TokenId choose(std::vector<float>& logits, std::span<const TokenId> history) {
    if (options_.logits_checksum) {
      checksum_.add(logits);
      result_.logits_checksum = checksum_.value();
    }
    return sampler_.sample(logits, history, static_cast<std::int64_t>(history.size()));
  }

  bool take(TokenId id) {
    if (result_.token_ids.empty()) {
      result_.prefill_s = seconds_since(begin_);
      decode_ = Clock::now();
    }
    result_.token_times_s.push_back(result_.token_ids.empty() ? 0.0 : seconds_since(decode_));
    result_.token_ids.push_back(id);
    if (!drafters_.empty()) {
      const auto choices = drafters_.front().guesser().last_choices();
      result_.choices.emplace_back(choices.begin(), choices.end());
    }
    if (tokenizer_.ends_generation(id)) {
      result_.finish_reason = "stop";
      return false;
    }
    show(stream_.push(id));
    return true;
  }

  void show(const std::string& text) {
    result_.text += text;
    print_out(text);
    std::fflush(stdout);
  }

  const Options& options_;
  Head& head_;
  const Tokenizer& tokenizer_;
  StreamDecoder stream_;
  Sampler sampler_;
  Checksum checksum_;
  Clock::time_point begin_, decode_;
  Generation result_;
  std::vector<DraftLink> drafters_;
  Decoder decoder_;
};

constexpr std::int32_t kGuessCells = 128;  // cells for guesses, beside those of the context

}  // namespace

DecodeOptions decode_options(const Options& o, int context, std::size_t banned) {
  DecodeOptions decode;
  if (o.strategy == "speculative") decode.strategy = Strategy::kSpeculative;
  if (o.strategy == "pipeinfer") decode.strategy = Strategy::kPipeInfer;
  const bool speculates = decode.strategy != Strategy::kIterative;
  decode.policy = o.policy;
  decode.generate = o.generate;
  decode.context = context;
  decode.guess_cells = speculates ? kGuessCells : 0;
  decode.sequences = {0, !speculates ? 1 : o.no_multibuffer ? 2 : kGuessCells + 1};
  decode.batch = o.batch;
  decode.cancel = !o.no_cancel;
  decode.continuous = !o.no_continuous;
  decode.continue_tip = !o.no_continue_tip;
  decode.lookup = speculates && o.looks_up();
  decode.logits = o.logits_checksum ? 0 : logits_read(o.sampling, banned);
  return decode;
}

namespace {

std::vector<std::string> vocabulary(const Tokenizer& tokenizer) {
  std::vector<std::string> texts;
  for (TokenId id = 0; id < tokenizer.size(); ++id) texts.push_back(tokenizer.text(id));
  return texts;
}

/// Of each drafter's model.
std::vector<VocabularyMap> map_vocabularies(const Job& job, const Tokenizer& tokenizer) {
  std::vector<VocabularyMap> maps;
  for (std::size_t d = 1; d < job.layout().size(); ++d) {
    const auto draft = Tokenizer::load(job.draft_file(static_cast<std::size_t>(job.layout()[d].model)), job.options().pre);
    maps.push_back(VocabularyMap::between(vocabulary(tokenizer), vocabulary(*draft)));
  }
  return maps;
}

std::vector<DraftLink> connect_drafters(const Job& job, std::vector<VocabularyMap> maps) {
  const Layout& layout = job.layout();
  std::vector<DraftLink> links;
  for (std::size_t d = 1; d < layout.size(); ++d)
    links.emplace_back(static_cast<int>(d) - 1, layout[d].ranks.front(), std::move(maps[d - 1]), job.relative_cost(layout[d].model));
  return links;
}

std::vector<TokenId> read_prompt(Job& job, const Tokenizer& tokenizer) {
  const Options& options = job.options();
  const int context = job.context();
  if (options.prompt && !options.prompt_file.empty()) throw UsageError("both -p and -f are given; choose one");
  if (!options.prompt && options.prompt_file.empty())
    throw UsageError("no prompt given; write one with -p TEXT or -f FILE (-f - reads standard input)");
  const std::string text = options.prompt ? *options.prompt : job.read_prompt_file();
  std::vector<TokenId> ids = tokenizer.encode(text, true, true);
  if (ids.empty()) throw UsageError("the prompt is empty; write one with -p TEXT or -f FILE");
  if (static_cast<int>(ids.size()) > context) {
    throw UsageError(fmt::format("the prompt has {} tokens, the context holds {}; raise -c or shorten the prompt", ids.size(), context));
  }
  return ids;
}

/// What is never chosen: with --ignore-eos the tokens that end a text.
std::vector<TokenId> banned_tokens(const Options& options, const Tokenizer& tokenizer) {
  std::vector<TokenId> banned;
  for (TokenId id = 0; options.ignore_eos && id < tokenizer.size(); ++id) {
    if (tokenizer.ends_generation(id)) banned.push_back(id);
  }
  return banned;
}

/// Of guessing that was asked for and will not happen.
void warn_of_no_guesses(const Job& job) {
  if (job.gave_up_drafting())
    warn("there are too few ranks for a target and its drafters, so nobody guesses; start more ranks with mpirun, or fewer --drafters");
  if (const std::string& flag = job.options().idle_guessing_flag; !flag.empty())
    warn(fmt::format("{} does nothing without a draft model; name one with -md FILE.gguf", flag));
}

void write_results(const Options& options, const Generation& result) {
  print_error(to_table(result));
  write_outputs({{options.json_file, [&] { return to_json(result); }},
                 {options.trace_file, [&] { return to_trace(result); }},
                 {options.csv_file, [&] { return to_csv(result); }}});
}

}  // namespace

void run_command(Job& job) {
  const Options& options = job.options();
  check_outputs({options.json_file, options.csv_file, options.trace_file}, options.inputs());
  job.open();
  const auto tokenizer = Tokenizer::load(job.file(), options.pre);
  const std::vector<TokenId> prompt = read_prompt(job, *tokenizer);
  std::vector<TokenId> banned = banned_tokens(options, *tokenizer);
  const DecodeOptions decode = decode_options(options, job.context(), banned.size());
  std::vector<VocabularyMap> vocabularies = map_vocabularies(job, *tokenizer);
  warn_of_no_guesses(job);
  Head head(job.transport(), job.cluster());
  job.start(head, decode.sequences.end, decode.guess_cells, prompt.size());

  Generator generator(job, head, *tokenizer, connect_drafters(job, std::move(vocabularies)), decode, std::move(banned));
  generator.result().model = job.hyperparameters();
  bool interrupted = false;
  try {
    generator.generate(prompt, job.context());
  } catch (const Interrupted&) {
    interrupted = true;
    generator.result().finish_reason = "interrupted";
  }
  generator.finish();
  generator.result().per_rank = head.stop(static_cast<int>(interrupted ? ExitCode::kInterrupted : ExitCode::kDone));
  generator.result().per_rank[0].mapped_bytes = job.mapped_bytes();
  generator.result().threads_measured_s = job.threads_measured_s();
  generator.result().split_advice = job.split_advice(generator.result().per_rank, generator.result().token_ids.size());
  write_results(options, generator.result());
  if (interrupted) throw Interrupted{};
}

}  // namespace yamata
