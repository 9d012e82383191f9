// yamata acceptance: the model generates text, and at each of its tokens all sources guess; counts how often their guesses are right.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "launch/commands/acceptance_report.hpp"
#include "launch/commands/commands.hpp"
#include "launch/program/job/guessing.hpp"
#include "launch/program/job/job.hpp"
#include "launch/program/job/job_text.hpp"
#include "launch/program/options/prompt_list.hpp"
#include "launch/program/options/tree_file.hpp"
#include "launch/program/output/output_file.hpp"
#include "launch/program/output/progress_bar.hpp"
#include "launch/program/output/standard_output.hpp"
#include "launch/program/output/tokenizer_warnings.hpp"
#include "launch/program/output/warnings.hpp"
#include "mpi/engine/engine.hpp"
#include "node/counted.hpp"
#include "node/error.hpp"
#include "src/speculation/shaped_policies.hpp"

namespace yamata {
namespace {

/// The prompts of the file, in the format that the model expects.
std::vector<std::string> read_prompts(const Job& job, const AcceptanceOptions& options) {
  std::vector<std::string> prompts = read_prompt_list(read_job_text(options.prompts_file, job.transport(), job.rank().options().timeout),
                                                      options.prompts_file, options.categories);
  const auto most = static_cast<std::size_t>(options.most_prompts);
  if (most > 0 && prompts.size() > most) prompts.resize(most);
  for (std::string& prompt : prompts) prompt = formatted_prompt(options.prompt_format, prompt);
  if (prompts.empty()) throw ModelError(fmt::format("{} has no prompts; check -f", options.prompts_file));
  return prompts;
}

/// Prompts that leave too few cells for text are shortened at the front, with a warning.
std::vector<Request> make_requests(const Job& job, const AcceptanceOptions& options, const Tokenizer& tokenizer) {
  std::vector<Request> requests;
  std::size_t shortened = 0;
  const auto most = static_cast<std::size_t>(std::max(1, job.rank().context() - options.generate));
  for (const std::string& prompt : read_prompts(job, options)) {
    Request& request = requests.emplace_back();
    request.prompt = tokenizer.encode(prompt, true, true);
    if (request.prompt.empty()) throw ModelError(fmt::format("{} has an empty prompt; check -f", options.prompts_file));
    if (request.prompt.size() > most) {
      request.prompt.erase(request.prompt.begin(), request.prompt.end() - static_cast<std::ptrdiff_t>(most));
      ++shortened;
    }
    request.sampling = options.sampling;
    request.generate = options.generate;
    for (TokenId id = 0; id < tokenizer.size(); ++id) {
      if (tokenizer.ends_generation(id)) request.ends.push_back(id);
    }
  }
  if (shortened > 0)
    warn(
        fmt::format("{} of {} lost the beginning, because the context of {} tokens has room for {} besides the {} of -n; give a larger -c "
                    "or a smaller -n",
                    shortened, counted(requests.size(), "prompt"), job.rank().context(), most, options.generate));
  return requests;
}

/// All sources guess at every token, whatever it costs; guesses are never sent.
DecodeOptions watching(const JobRank& rank, const ExpectedText& text) {
  DecodeOptions decode = decode_options(rank, text);
  decode.policy.name = "watch";
  decode.reuse_tree = false;
  decode.at_any_cost = true;
  decode.lookup = text.speculation.lookup;
  return decode;
}

/// Drafts and heads make only so many guesses after each token: those of a tree of a given size, else a fixed number of children per node.
/// Lookup alone has no such limit.
GuessLimits recorded_guesses(const AcceptanceOptions& options) {
  const PolicyOptions& policy = options.speculation.policy;
  if (!options.job.models.guess()) return {};
  const DraftOptions draft = draft_options(policy);
  return {policy.name == "dynamic-tree" ? policy.draft : draft.credit, draft.children};
}

/// --tree: the trees to replay.
std::vector<StaticTree> given_trees(const SpeculationOptions& speculation) {
  if (speculation.policy.tree) return {*speculation.policy.tree};
  return speculation.tree_file.empty() ? std::vector<StaticTree>{} : read_all_trees(speculation.tree_file);
}

/// The command's progress, on a terminal.
class Counter final : public RequestObserver {
 public:
  explicit Counter(std::size_t prompts) : prompts_(prompts), shown_(isatty(STDERR_FILENO) != 0) {}
  void on_finished(Completion completion) override {
    tokens += completion.token_ids.size();
    if (completion.finish == FinishReason::kInterrupted) return;
    ++done;
    if (shown_) fmt::print(stderr, "\r{}/{} prompts{}", done, prompts_, done == prompts_ ? "\n" : "");
  }
  std::size_t tokens = 0, done = 0;  // a text that was interrupted has tokens, but its prompt is not done

 private:
  std::size_t prompts_;
  bool shown_;
};

}  // namespace

void acceptance_command(Job& job, const AcceptanceOptions& options) {
  std::vector<std::string> inputs = options.job.models.all();
  inputs.insert(inputs.end(), {options.prompts_file, options.speculation.tree_file});
  check_outputs({{options.json_file, OutputKind::kJson}}, inputs);
  std::ranges::for_each(options.idle_flags, warn);
  job.open();
  const auto tokenizer = load_tokenizer(job.rank().models().target().file, options.pre_tokenizer);
  std::vector<Request> requests = make_requests(job, options, *tokenizer);
  const ExpectedText text{.prompt_tokens = static_cast<std::size_t>(job.rank().context()),
                          .generate = options.generate,
                          .speculation = options.speculation,
                          .sampling = options.sampling};
  const DecodeOptions decode = watching(job.rank(), text);
  std::vector<VocabularyMap> vocabularies = map_vocabularies(job.rank(), *tokenizer, options.pre_tokenizer);
  Counter counter(requests.size());
  AcceptanceReport report{.model = options.job.models.target,
                          .prompts = requests.size(),
                          .positions = 0,
                          .sources = {},
                          .tree_file = options.speculation.tree_file,
                          .trees = given_trees(options.speculation),
                          .limits = recorded_guesses(options)};
  job.start(text);
  job.serve([&](Head& head) {
    GuessSources sources = connect_sources(job, std::move(vocabularies), decode, std::make_shared<SuffixMemory>());
    std::vector<const GuessSource*> watched;
    for (const auto& source : sources.all()) watched.push_back(source.get());
    auto recorder = std::make_unique<GuessRecorder>(sources.next_index(), static_cast<std::size_t>(options.levels));
    const GuessRecorder& record = *recorder;
    sources.add(std::move(recorder));
    Engine engine(head, std::move(sources), decode);
    for (Request& request : requests) engine.submit(std::move(request), counter);
    try {
      engine.run();
    } catch (const Interrupted&) {
      report.sources = record.rates(watched);
      throw;
    }
    report.sources = record.rates(watched);
  });
  job.end();
  if (job.interrupted()) {
    print_error("\nyamata: interrupted after {} of {}; the rates are those of the text so far\n", counter.done,
                counted(static_cast<std::int64_t>(report.prompts), "prompt"));
    report.prompts = counter.done;
  }
  report.positions = counter.tokens;
  print_out("{}", to_table(report));
  write_outputs({{options.json_file, [&] { return to_json(report); }}}, job.pipe_deadline());
  if (job.interrupted()) throw Interrupted{};
}

}  // namespace yamata
