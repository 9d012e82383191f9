// yamata perplexity: how well the model predicts a text, chunk by chunk, with the method of llama-perplexity.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>

#include "launch/commands/commands.hpp"
#include "launch/program/job/job.hpp"
#include "launch/program/job/job_text.hpp"
#include "launch/program/options/text_encoding.hpp"
#include "launch/program/output/output_file.hpp"
#include "launch/program/output/standard_output.hpp"
#include "launch/program/output/tokenizer_warnings.hpp"
#include "node/counted.hpp"
#include "node/error.hpp"
#include "src/tokenizer/tokenizer.hpp"

namespace yamata {
namespace {

/// -log softmax(logits)[id], in double precision.
double negative_log_likelihood(std::span<const float> logits, TokenId id) {
  double most = -INFINITY;
  for (const float l : logits) most = std::max(most, static_cast<double>(l));
  double sum = 0;
  for (const float l : logits) sum += std::exp(static_cast<double>(l) - most);
  return most + std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(id)]);
}

constexpr SequenceRange kText{0, 1};  // everything in the cache

class Scorer {
 public:
  Scorer(Head& head, int batch, std::size_t vocabulary) : head_(head), batch_(static_cast<std::size_t>(batch)), vocabulary_(vocabulary) {}

  /// Scores the second half of a chunk: each row from the middle on predicts the token after it.
  void score(std::span<const TokenId> chunk) {
    for (std::size_t at = 0; at < chunk.size(); at += batch_) {
      while (out_.size() >= 2 * static_cast<std::size_t>(head_.ranks())) collect(chunk);
      submit(chunk, at);
    }
    while (!out_.empty()) collect(chunk);
    wire::Record clear;
    clear.operations.push_back(CacheOperation::clear());
    head_.target().submit(std::move(clear));
  }

  double nll = 0;
  std::size_t tokens = 0;

 private:
  struct Run {
    std::uint64_t id;
    std::size_t begin, end;  // positions in the chunk
  };
  /// Waits for the oldest run in flight and scores its rows.
  void collect(std::span<const TokenId> chunk) {
    const Run run = out_.front();
    out_.pop_front();
    const std::vector<float> logits = head_.wait_result(run.id).logits;
    std::size_t row = 0;
    for (std::size_t i = run.begin; i < run.end; ++i) {
      if (!is_scored(i, chunk.size())) continue;
      nll += negative_log_likelihood(std::span(logits).subspan(row++ * vocabulary_, vocabulary_), chunk[i + 1]);
      ++tokens;
    }
  }
  static bool is_scored(std::size_t i, std::size_t size) { return i >= size / 2 && i + 1 < size; }
  void submit(std::span<const TokenId> chunk, std::size_t at) {
    wire::Record run;
    const std::size_t n = std::min(batch_, chunk.size() - at);
    for (std::size_t i = at; i < at + n; ++i) {
      run.tokens.push_back(chunk[i]);
      run.placements.push_back({static_cast<std::int32_t>(i), -1, kText});
      if (is_scored(i, chunk.size())) run.logit_rows.push_back(static_cast<std::int32_t>(i - at));
    }
    out_.push_back({head_.target().submit(std::move(run)), at, at + n});
  }

  Head& head_;
  std::size_t batch_, vocabulary_;
  std::deque<Run> out_;
};

std::string read_corpus(const Job& job, const TextSource& source) {
  if (!source.prompt && source.file.empty()) throw UsageError("no text given; write one with -p TEXT or -f FILE");
  std::string text = source.prompt ? *source.prompt : read_job_text(source.file, job.transport(), job.rank().options().timeout);
  warn_unless_utf8(text, source);
  return text;
}

}  // namespace

void perplexity_command(Job& job, const PerplexityOptions& options) {
  check_outputs({{options.json_file, OutputKind::kJson}}, {options.job.models.target, options.text.file});
  job.open();
  const auto tokenizer = load_tokenizer(job.rank().models().target().file, options.text.pre_tokenizer);
  std::vector<TokenId> ids = tokenizer->encode(read_corpus(job, options.text), true, true);
  warn_of_doubled_bos(*tokenizer, ids);
  const auto size = static_cast<std::size_t>(job.rank().context());
  std::size_t chunks = ids.size() / size;
  if (chunks == 0)
    throw UsageError(fmt::format("the text has {}, fewer than one chunk of {}; lower -c or give a longer text",
                                 counted(std::ssize(ids), "token"), size));
  if (options.chunks > 0) chunks = std::min(chunks, static_cast<std::size_t>(options.chunks));

  const bool terminal = isatty(STDERR_FILENO) != 0;
  double nll = 0;
  std::size_t tokens = 0;
  const auto score = [&](Head& head) {
    Scorer scorer(head, options.job.cache.batch, static_cast<std::size_t>(job.rank().models().target().h.vocabulary));
    for (std::size_t c = 0; c < chunks; ++c) {
      const auto chunk = std::span(ids).subspan(c * size, size);
      if (tokenizer->adds_bos() && tokenizer->bos() >= 0) chunk[0] = tokenizer->bos();
      scorer.score(chunk);
      if (terminal)
        fmt::print(stderr, "\r{}/{} chunks, perplexity {:.4f}", c + 1, chunks, std::exp(scorer.nll / static_cast<double>(scorer.tokens)));
    }
    nll = scorer.nll / static_cast<double>(scorer.tokens);
    tokens = scorer.tokens;
  };
  job.start({});
  job.serve(score);
  job.end();
  if (job.interrupted()) throw Interrupted{};
  if (terminal) fmt::print(stderr, "\n");
  print_out("perplexity {:.4f} over {}\n", std::exp(nll), counted(static_cast<std::int64_t>(tokens), "token"));
  const nlohmann::ordered_json json{{"perplexity", std::exp(nll)}, {"nll", nll}, {"tokens", tokens}};
  write_outputs({{options.json_file, [&] { return json.dump(2) + "\n"; }}}, job.pipe_deadline());
}

}  // namespace yamata
