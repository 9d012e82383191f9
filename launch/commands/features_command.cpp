// yamata features: writes hidden states of the target for texts that are given or that it generates, for the training of heads.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "launch/commands/commands.hpp"
#include "launch/program/job/job.hpp"
#include "launch/program/job/job_text.hpp"
#include "launch/program/options/prompt_list.hpp"
#include "launch/program/options/text_encoding.hpp"
#include "launch/program/output/feature_files.hpp"
#include "launch/program/output/output_file.hpp"
#include "launch/program/output/progress_bar.hpp"
#include "launch/program/output/standard_output.hpp"
#include "launch/program/output/tokenizer_warnings.hpp"
#include "launch/program/output/warnings.hpp"
#include "mpi/engine/engine.hpp"
#include "node/counted.hpp"
#include "node/error.hpp"
#include "node/read_number.hpp"
#include "src/tokenizer/tokenizer.hpp"

namespace yamata {
namespace {

struct Layers {
  std::vector<std::int32_t> numbers;  // ascending
  std::vector<std::string> names;
};

Layers read_layers(const std::vector<std::string>& words, std::int64_t layers) {
  std::vector<std::int32_t> numbers;
  for (const std::string& word : words) {
    if (word == "last") {
      numbers.push_back(kOutputFeatures);
    } else if (word == "eagle3") {
      const std::vector<std::int32_t> three = eagle3_layers(layers);
      numbers.insert(numbers.end(), three.begin(), three.end());
    } else {
      const auto layer = read_number<std::int32_t>(word);
      if (!layer || *layer < 0 || *layer >= layers)
        throw UsageError(fmt::format("--layers: '{}' is not a layer of this model (0 to {}), 'last' or 'eagle3'", word, layers - 1));
      numbers.push_back(*layer);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  Layers all{numbers, {}};
  for (const std::int32_t number : numbers) all.names.push_back(number == kOutputFeatures ? "last" : std::to_string(number));
  return all;
}

/// A source that does not guess, but records the features of the text.
class FeatureRecorder final : public GuessSource {
 public:
  FeatureRecorder(int index, std::vector<std::int32_t> layers) : GuessSource(index), layers_(std::move(layers)) {}
  void begin(std::uint64_t) override { rows_.clear(); }
  bool guess(TokenTree&, std::span<const std::int32_t>, const GuessDemand&) override { return false; }
  std::vector<std::int32_t> feature_layers() const override { return layers_; }
  void take_features(std::int32_t, std::span<const float> row) override { rows_.insert(rows_.end(), row.begin(), row.end()); }
  std::span<const float> rows() const { return rows_; }

 private:
  const std::vector<std::int32_t> layers_;
  std::vector<float> rows_;
};

/// Submits one text after another, and writes the results.
class Collector final : public RequestObserver {
 public:
  Collector(std::vector<std::vector<TokenId>> prompts, Request request, FeatureFiles& files)
      : prompts_(std::move(prompts)), request_(std::move(request)), files_(files) {
    if (isatty(STDERR_FILENO)) progress_.emplace("features");
  }

  void run(Engine& engine, const FeatureRecorder& recorder) {
    engine_ = &engine;
    recorder_ = &recorder;
    submit();
    engine.run();
  }

  void on_finished(Completion completion) override {
    std::vector<TokenId> text = prompts_[next_ - 1];
    text.insert(text.end(), completion.token_ids.begin(), completion.token_ids.end());
    text.pop_back();  // the last token was never computed
    if (completion.finish == FinishReason::kInterrupted) return;
    files_.add(text, prompts_[next_ - 1].size(), recorder_->rows());
    if (progress_) (*progress_)(static_cast<double>(next_) / static_cast<double>(prompts_.size()));
    if (next_ < prompts_.size()) submit();
  }

 private:
  void submit() {
    Request request = request_;
    request.prompt = prompts_[next_++];
    engine_->submit(std::move(request), *this);
  }

  const std::vector<std::vector<TokenId>> prompts_;
  const Request request_;
  FeatureFiles& files_;
  Engine* engine_ = nullptr;
  const FeatureRecorder* recorder_ = nullptr;
  std::size_t next_ = 0;
  std::optional<ProgressBar> progress_;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

/// Leaves at most `most` tokens: the last ones of a whole prompt, because its end says what to answer, else the first ones. A
/// beginning-of-text token stays in front.
void shorten(std::vector<TokenId>& ids, std::size_t most, bool prompt, TokenId bos) {
  if (ids.size() <= most) return;
  const auto surplus = static_cast<std::ptrdiff_t>(ids.size() - most), kept = static_cast<std::ptrdiff_t>(ids.front() == bos);
  if (prompt) {
    ids.erase(ids.begin() + kept, ids.begin() + kept + surplus);
  } else {
    ids.resize(most);
  }
}

/// The texts or prompts, one by one.
std::vector<std::vector<TokenId>> read_prompts(const Job& job, const FeaturesOptions& options, const Tokenizer& tokenizer) {
  if (!options.text.prompt && options.text.file.empty()) throw UsageError("no text given; write one with -p TEXT or -f FILE");
  const std::string whole =
      options.text.prompt ? *options.text.prompt : read_job_text(options.text.file, job.transport(), job.rank().options().timeout);
  const auto context = static_cast<std::size_t>(job.rank().context());
  const std::size_t written = options.generates ? static_cast<std::size_t>(options.generate) : 0;
  if (written >= context) throw UsageError(fmt::format("--generate {} does not fit a context of {}; raise -c", written, context));
  const bool listed = options.text.file.ends_with(".jsonl");
  if (!listed) warn_unless_utf8(whole, options.text);
  if (!listed) warn_of_prompt_list(whole, options.text);
  const bool whole_lines = listed || options.formats;
  const std::size_t most = whole_lines || !options.generates ? context - written : static_cast<std::size_t>(options.prompt_tokens);
  std::vector<std::vector<TokenId>> prompts;
  const auto add = [&](std::vector<TokenId> ids) {
    if (!ids.empty() && (options.texts == 0 || prompts.size() < static_cast<std::size_t>(options.texts))) prompts.push_back(std::move(ids));
  };
  if (!listed && !options.generates) {  // one long text, divided into pieces
    const std::vector<TokenId> ids = tokenizer.encode(whole, false, true);
    const bool bos = tokenizer.adds_bos() && tokenizer.bos() >= 0;
    for (std::size_t at = 0; at < ids.size(); at += most - bos) {
      std::vector<TokenId> piece;
      if (bos) piece.push_back(tokenizer.bos());
      piece.insert(piece.end(), ids.begin() + static_cast<std::ptrdiff_t>(at),
                   ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), at + most - bos)));
      add(std::move(piece));
    }
    return prompts;
  }
  for (const std::string& text : listed ? read_prompt_list(whole, options.text.file) : lines_of(whole)) {
    if (text.find_first_not_of(" \t") == std::string::npos) continue;
    std::vector<TokenId> ids = tokenizer.encode(formatted_prompt(options.prompt_format, text), true, true);
    warn_of_doubled_bos(tokenizer, ids);
    shorten(ids, most, options.generates && whole_lines, tokenizer.bos());
    add(std::move(ids));
  }
  return prompts;
}

/// Computes and writes the hidden states. `done`: the number of texts that the files have, also if it was interrupted.
void write_features(Job& job, const FeaturesOptions& options, std::size_t& done) {
  check_outputs({{options.output, OutputKind::kFeatures}}, {options.job.models.target, options.text.file});
  job.open();
  const ModelFile& target = job.rank().models().target();
  const auto tokenizer = load_tokenizer(target.file, options.text.pre_tokenizer);
  const Layers layers = read_layers(options.layers, target.h.layers);
  std::vector<std::vector<TokenId>> prompts = read_prompts(job, options, *tokenizer);
  if (prompts.empty()) throw UsageError("the text is empty; give one with -f FILE");
  Request request;
  request.sampling = options.sampling;
  request.generate = options.generate;
  for (TokenId id = 0; id < tokenizer->size(); ++id) {
    if (tokenizer->ends_generation(id)) request.ends.push_back(id);
  }
  if (options.ignore_eos) request.banned = request.ends;
  std::ranges::for_each(options.idle_flags, warn);
  FeatureFiles files({options.output, layers.names, target.h.dim, options.halves, std::uint64_t(options.shard_mib) << 20,
                      target.file.string("general.name").value_or("")});
  const DecodeOptions decode =
      decode_options(Strategy::kIterative, {}, options.job.cache.batch, options.generate, job.rank().context(), options.sampling);
  const std::size_t texts = prompts.size();
  Collector collector(std::move(prompts), std::move(request), files);
  job.start({});
  job.serve([&](Head& head) {
    GuessSources sources(job.transport());
    auto recorder = std::make_unique<FeatureRecorder>(sources.next_index(), layers.numbers);
    const FeatureRecorder& features = *recorder;
    sources.add(std::move(recorder));
    Engine engine(head, std::move(sources), decode);
    collector.run(engine, features);
  });
  job.end();
  files.finish();
  done = files.texts();
  if (job.interrupted() && done == 0) throw Interrupted{};
  print_out("features of {}, {}{}, in {}\n", counted(static_cast<std::int64_t>(files.rows()), "token"),
            done < texts ? fmt::format("{} of ", done) : "", counted(static_cast<std::int64_t>(texts), "text"),
            counted(static_cast<std::int64_t>(files.files()), "file"));
  if (job.interrupted()) throw Interrupted{};
}

}  // namespace

void features_command(Job& job, const FeaturesOptions& options) {
  std::size_t done = 0;
  try {
    write_features(job, options, done);
  } catch (const Job::EndedWithOthers&) {
    throw;
  } catch (const Interrupted&) {
    if (done == 0) print_error("yamata: interrupted before the first text was done, so {} is not written\n", options.output);
    throw;
  }
}

}  // namespace yamata
