// yamata run: generates text from a prompt.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "launch/commands/commands.hpp"
#include "launch/program/input/input_text.hpp"
#include "launch/program/job/guessing.hpp"
#include "launch/program/job/job.hpp"
#include "launch/program/job/job_text.hpp"
#include "launch/program/options/text_encoding.hpp"
#include "launch/program/output/output_file.hpp"
#include "launch/program/output/report.hpp"
#include "launch/program/output/standard_output.hpp"
#include "launch/program/output/suffix_file.hpp"
#include "launch/program/output/tokenizer_warnings.hpp"
#include "launch/program/output/warnings.hpp"
#include "launch/program/serving/submission.hpp"
#include "mpi/engine/engine.hpp"
#include "node/error.hpp"
#include "node/mapped_file.hpp"
#include "src/grammar/json_schema.hpp"
#include "src/grammar/tokenizer_vocabulary.hpp"
#include "src/tokenizer/stop_finder.hpp"
#include "src/tokenizer/tokenizer.hpp"

namespace yamata {
namespace {

/// Prints a text while it is generated, and keeps its result.
class Printer final : public RequestObserver {
 public:
  Printer(const Tokenizer& tokenizer, int context, const std::vector<std::string>& stops, Generation& result)
      : tokenizer_(tokenizer), context_(context), stream_(tokenizer), stops_(stops), result_(result) {}
  /// The engine that ends the text at a stop string.
  void observe(Engine& engine) { engine_ = &engine; }

  void on_token(RequestId request, std::int32_t token) override {
    if (!tokenizer_.ends_generation(token)) show(stops_.push(stream_.push(token)));
    if (stops_.found() && engine_) engine_->stop(request);
  }
  void on_finished(Completion completion) override {
    if (completion.finish == FinishReason::kContext)
      print_error("\nyamata: the context of {} tokens is full{}\n", context_,
                  context_ < result_.model.context ? "; raise -c for a longer text" : ", and the model was trained for no longer text");
    if (!stops_.found()) show(stops_.push(stream_.finish()));
    show(stops_.finish());
    print_out("\n");
    flush_out();
    static_cast<Completion&>(result_) = std::move(completion);
  }

 private:
  void show(const std::string& text) {
    result_.text += text;
    print_out(text);
    flush_out();
  }

  const Tokenizer& tokenizer_;
  const int context_;
  StreamDecoder stream_;
  StopFinder stops_;
  Engine* engine_ = nullptr;
  Generation& result_;
};

/// What --chat makes of a message.
std::string chat_prompt(const Job& job, const std::string& message, const Tokenizer& tokenizer) {
  const auto token = [&](TokenId id) { return id < 0 ? "" : tokenizer.text(id); };
  ChatTemplate chat{job.rank().models().target().file.string("tokenizer.chat_template").value_or(""), token(tokenizer.bos()),
                    token(tokenizer.eos())};
  if (chat.source.empty()) warn("the model has no chat template, so --chat uses ChatML");
  return render_job_chat(chat, message, job.transport());
}

std::vector<TokenId> read_prompt(const Job& job, const RunOptions& options, const Tokenizer& tokenizer) {
  const TextSource& source = options.text;
  if (!source.prompt && source.file.empty())
    throw UsageError("no prompt given; write one with -p TEXT or -f FILE (-f - reads standard input)");
  std::string text = source.prompt ? *source.prompt : read_job_text(source.file, job.transport(), job.rank().options().timeout);
  warn_unless_utf8(text, source);
  if (options.chat) text = chat_prompt(job, text, tokenizer);
  std::vector<TokenId> ids = options.chat ? prompt_ids(tokenizer, text) : tokenizer.encode(text, true, true);
  warn_of_doubled_bos(tokenizer, ids);
  if (ids.empty()) throw UsageError("the prompt is empty; write one with -p TEXT or -f FILE");
  require_prompt_fits(static_cast<std::int64_t>(ids.size()), job.rank().context(), job.rank().models().target().h);
  return ids;
}

/// The request of -p or -f. With --ignore-eos, tokens that would end the text are never chosen.
Request make_request(const RunOptions& options, std::vector<TokenId> prompt, const Tokenizer& tokenizer) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling = options.sampling;
  request.generate = options.generate;
  request.checksum = options.logits_checksum;
  for (TokenId id = 0; id < tokenizer.size(); ++id) {
    if (tokenizer.ends_generation(id)) request.ends.push_back(id);
  }
  if (options.ignore_eos) request.banned = request.ends;
  return request;
}

/// The automaton of --json-schema; nothing without it.
std::optional<ByteAutomaton> read_schema(const RunOptions& options) {
  if (options.schema_file.empty()) return std::nullopt;
  const std::string schema = read_text(options.schema_file, {"--json-schema", 1});
  try {
    return compile_json_schema(schema, options.schema);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--json-schema {}: {}", options.schema_file, error.what()));
  }
}

/// Warns of flags about guesses that have no effect, or not the one that they are for.
void warn_of_no_guesses(const Job& job, const RunOptions& options) {
  std::ranges::for_each(options.idle_flags, warn);
  if (options.wants_ranks && job.transport().size() == 1)
    warn(
        "--preset pipeinfer is for several ranks: on one, the target and the draft take turns; start more with mpirun, or give the draft "
        "a unit of its own with --draft-units");
  if (options.job.layout.strategy || options.job.models.drafts.empty() || !job.rank().options().models.drafts.empty()) return;
  for (const std::string& file : options.job.models.drafts)
    MappedFile{file};  // a name that is wrong should be found now, not with more ranks
  warn(fmt::format("too few ranks for the target and its drafters, so no rank drafts; start more ranks with mpirun, or give {}",
                   options.fewer_drafts));
}

void write_results(const Job& job, const RunOptions& options, const Generation& result, const std::function<void()>& write_suffixes) {
  print_error(to_table(result));
  write_outputs({{options.json_file, [&] { return to_json(result); }},
                 {options.trace_file, [&] { return to_trace(result); }},
                 {options.csv_file, [&] { return to_csv(result); }},
                 {options.speculation.suffix_store, {}, write_suffixes}},
                job.pipe_deadline());
}

}  // namespace

void run_command(Job& job, const RunOptions& options) {
  check_store(options.speculation.suffix_store);
  check_outputs({{options.json_file, OutputKind::kJson},
                 {options.csv_file, OutputKind::kRunCsv},
                 {options.trace_file, OutputKind::kTrace},
                 {options.speculation.suffix_store, OutputKind::kSuffixStore}},
                options.inputs());
  std::optional<ByteAutomaton> schema = read_schema(options);
  job.open();
  const JobRank& rank = job.rank();
  const auto tokenizer = load_tokenizer(rank.models().target().file, options.text.pre_tokenizer);
  Request request = make_request(options, read_prompt(job, options, *tokenizer), *tokenizer);
  if (schema) request.grammar = std::make_shared<TokenGrammar>(grammar_vocabulary(*tokenizer), std::move(*schema));
  std::vector<VocabularyMap> vocabularies = map_vocabularies(rank, *tokenizer, options.text.pre_tokenizer);
  const std::vector<std::string> texts = vocabulary(*tokenizer);
  const SuffixFile store(options.speculation.suffix_store, texts);
  const auto memory = read_suffixes(store, options.speculation.datastore, texts);
  warn_of_no_guesses(job, options);
  Generation result;
  result.with_checksum = options.logits_checksum;
  result.prompt_ids = request.prompt;
  result.model = rank.models().target().h;
  Printer printer(*tokenizer, rank.context(), options.stops, result);
  const ExpectedText text{request.prompt.size(), options.generate, options.speculation, options.sampling};
  job.start(text);
  job.serve([&](Head& head) {
    const DecodeOptions decode = decode_options(rank, text);
    result.lossless = !decode.typical;
    GuessSources sources = connect_sources(job, std::move(vocabularies), decode, memory);
    const SavingsOfDrafts savings(job.experience(), decode, text.sampling, sources);
    Engine engine(head, std::move(sources), decode);
    printer.observe(engine);
    engine.submit(std::move(request), printer);
    engine.run();
    savings.keep(engine.sources());
  });
  result.per_rank = job.end();
  result.per_rank[0].mapped_bytes = rank.models().mapped_bytes();
  result.per_rank[0].feature_bytes += result.feature_bytes;
  result.strategy = strategy_name(rank.layout().strategy());
  if (const auto& choice = rank.layout().choice()) {
    result.layout_choice = choice->why;
    result.plan_json = choice->plan_json;
  }
  result.threads_measured_s = job.planner().threads_measured_s();
  job.experience().remember(result, result.per_rank);
  result.split_advice = job.planner().split_advice(result.per_rank, result.token_ids.size());
  write_results(job, options, result, [&] { store.add(*memory); });
  if (job.interrupted()) throw Interrupted{};
}

}  // namespace yamata
