// yamata engine: serves the requests of a front end until it ends.
#include <fmt/ranges.h>
#include <malloc.h>

#include <algorithm>
#include <utility>

#include "launch/commands/commands.hpp"
#include "launch/program/input/interrupts.hpp"
#include "launch/program/job/guessing.hpp"
#include "launch/program/job/job.hpp"
#include "launch/program/output/report.hpp"
#include "launch/program/output/suffix_file.hpp"
#include "launch/program/output/tokenizer_warnings.hpp"
#include "launch/program/output/warnings.hpp"
#include "launch/program/serving/engine_server.hpp"
#include "launch/program/serving/standard_front_end.hpp"
#include "mpi/cluster/rank_lost.hpp"
#include "mpi/engine/engine.hpp"

namespace yamata {
namespace {

std::string token_text(const Tokenizer& tokenizer, TokenId id) { return id < 0 ? "" : tokenizer.text(id); }

/// What each rank does.
JsonLine describe_ranks(const Head& head) {
  JsonLine ranks = JsonLine::array();
  for (std::size_t rank = 0; rank < head.hellos().size(); ++rank)
    ranks.push_back({{"rank", rank}, {"host", head.hellos()[rank].host}, {"role", "idle"}, {"layers", ""}});
  for (const wire::PipelinePlan& pipeline : head.plan().pipelines) {
    for (std::size_t place = 0; place < pipeline.ranks.size(); ++place) {
      const auto rank = static_cast<std::size_t>(pipeline.ranks[place]);
      if (pipeline.model != 0) {
        if (ranks[rank]["role"] == "idle") ranks[rank]["role"] = "drafter";
        continue;
      }
      ranks[rank]["role"] = rank == 0 ? "head" : "stage";
      ranks[rank]["layers"] = layers_text(pipeline.layers[place]);
      ranks[rank]["share"] = pipeline.shares.empty() ? 1.0 : pipeline.shares[place];
    }
  }
  return ranks;
}

/// "guesses: draft model, repeated text".
std::string describe_guesses(const GuessSources& sources) {
  std::vector<std::string> names;
  for (const std::unique_ptr<GuessSource>& source : sources.all()) {
    const std::string name = source->name() == "suffixes" ? "repeated text" : source->name();
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names.empty() ? "no guesses" : fmt::format("guesses: {}", fmt::join(names, ", "));
}

/// The ranks in a line: "layers 0-3 on rank 0 (a), layers 4-7 on ranks 1 (b) + 2 (c), drafts on rank 3 (d)".
std::string describe_layout(const JsonLine& ranks) {
  std::string line, before;
  for (const JsonLine& rank : ranks) {
    const std::string role = rank["role"], layers = rank["layers"];
    const std::string what = layers.empty() ? (role == "drafter" ? "drafts" : "nothing") : "layers " + layers;
    const std::string place = std::to_string(rank["rank"].get<int>()) + " (" + rank["host"].get<std::string>() + ")";
    if (what == before) {
      const std::size_t on = line.rfind(" on rank ");
      if (on != std::string::npos) line.insert(on + std::string_view(" on rank").size(), "s");
      line += " + " + place;
    } else {
      line += (line.empty() ? "" : ", ") + what + " on rank " + place;
    }
    before = what;
  }
  return line;
}

JsonLine describe_job(const Job& job, Head& head, const Tokenizer& tokenizer, const Engine& engine) {
  const JobRank& rank = job.rank();
  const gguf::File& file = rank.models().target().file;
  JsonLine ready{{"is", "ready"},
                 {"context", rank.context()},
                 {"slots", engine.slots()},
                 {"cache_tokens", head.target().cells().cell_count()},
                 {"vocab", tokenizer.size()}};
  ready["template"] = file.string("tokenizer.chat_template").value_or("");
  ready["bos"] = token_text(tokenizer, tokenizer.bos());
  ready["eos"] = token_text(tokenizer, tokenizer.eos());
  ready["adds_bos"] = tokenizer.adds_bos();
  ready["model"] = file.string("general.name").value_or("");
  JsonLine& fim = ready["fim"] = JsonLine::object();
  constexpr std::pair<const char*, FimToken> kFim[] = {
      {"prefix", FimToken::kPrefix}, {"suffix", FimToken::kSuffix}, {"middle", FimToken::kMiddle}};
  for (const auto& [name, token] : kFim) {
    if (tokenizer.fim(token) >= 0) fim[name] = tokenizer.fim(token);
  }
  ready["ranks"] = describe_ranks(head);
  ready["layout"] = describe_layout(ready["ranks"]) + "; " + describe_guesses(engine.sources());
  if (const auto& choice = rank.layout().choice()) ready["layout_choice"] = choice->why;
  return ready;
}

/// The text for which the job is planned: requests are not known yet.
ExpectedText expected_text(const JobRank& rank, const EngineOptions& options) {
  constexpr int kPrompt = 256, kAnswer = 256, kKeptTexts = 32;
  const int prompt = std::clamp(rank.context() / 2, 1, kPrompt);
  return {.prompt_tokens = static_cast<std::size_t>(prompt),
          .generate = kAnswer,
          .speculation = options.speculation,
          .sampling = options.sampling,
          .slots = options.slots,
          .kept_texts = kKeptTexts,
          .cache_tokens = options.cache_tokens,
          .requests = options.requests};
}

void serve_requests(Job& job, const EngineOptions& options, const Tokenizer& tokenizer, std::vector<VocabularyMap> vocabularies,
                    const std::shared_ptr<SuffixMemory>& memory, StandardFrontEnd& front_end) {
  job.start(expected_text(job.rank(), options));
  const ExpectedText& text = job.planner().text();
  job.serve([&](Head& head) {
    const DecodeOptions decode = decode_options(job.rank(), text);
    GuessSources sources = connect_sources(job, std::move(vocabularies), decode, memory);
    const SavingsOfDrafts savings(job.experience(), decode, text.sampling, sources);
    Engine engine(head, std::move(sources), decode);
    const ServedModel model{tokenizer, options.sampling, job.rank().context()};
    EngineServer server(head, engine, model, front_end);
    front_end.serves();
    front_end.say(describe_job(job, head, tokenizer, engine));
    server.run();
    savings.keep(engine.sources());
  });
  job.end();
}

/// Memory of large lines goes back to the system, however often they come. By default the C library would keep ever larger blocks.
void keep_no_large_blocks() {
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
  mallopt(M_TRIM_THRESHOLD, 16 << 20);
}

}  // namespace

void engine_command(Job& job, const EngineOptions& options) {
  keep_no_large_blocks();
  check_store(options.speculation.suffix_store);
  StandardFrontEnd front_end(job.transport());
  job.tell_start({.joined = [&](int rank, const std::string& host) { front_end.joined(rank, host); },
                  .loading = [&](double share) { front_end.loaded(share); }});
  job.open();
  const JobRank& rank = job.rank();
  const auto tokenizer = load_tokenizer(rank.models().target().file, options.pre_tokenizer);
  std::vector<VocabularyMap> vocabularies = map_vocabularies(rank, *tokenizer, options.pre_tokenizer);
  const std::vector<std::string> texts = vocabulary(*tokenizer);
  const SuffixFile store(options.speculation.suffix_store, texts);
  const auto memory = read_suffixes(store, options.speculation.datastore, texts);
  std::ranges::for_each(options.idle_flags, warn);
  try {
    serve_requests(job, options, *tokenizer, std::move(vocabularies), memory, front_end);
  } catch (const RankLost& lost) {
    front_end.lost(lost.rank, lost.what());
    throw;
  } catch (const Job::EndedWithOthers&) {
    front_end.say({{"is", "lost"}, {"why", "a rank has ended"}});
    throw;
  } catch (const ClusterError& error) {
    front_end.say({{"is", "lost"}, {"why", error.what()}});
    throw;
  } catch (const Interrupted&) {
    if (!front_end.gone()) throw;
    return;
  }
  store.add(*memory);
  if (job.interrupted() && !front_end.gone()) throw Interrupted{};
}

}  // namespace yamata
