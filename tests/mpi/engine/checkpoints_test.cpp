// Small models with windows and with states: texts that begin at a checkpoint, and texts at the same time, have the bits of others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "mpi/engine/engine.hpp"
#include "mpi/planning/memory_plan.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/mpi/local_cluster.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/thorough.hpp"

namespace yamata::test {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kTextContext = 160, kTextGuesses = 16;

struct TextObserver final : RequestObserver {
  void on_finished(Completion c) override { completion = std::move(c); }
  std::optional<Completion> completion;
};

/// How texts are generated.
struct TextShape {
  Strategy strategy = Strategy::kIterative;
  int slots = 1, kept = 6;
  int contexts = 1;  // cells for texts
};

/// One rank, whose layers with windows or states have as little memory as the planner would give them.
class TinyJob {
 public:
  TinyJob(const std::string& variant, const TextShape& shape)
      : model_(open(variant)), unit_({-1}, cpu::choose_isa()), cluster_(1), head_(cluster_.head(), {}) {
    DecodeOptions decode;
    decode.strategy = shape.strategy;
    decode.context = kTextContext;
    decode.batch = 16;
    decode.slots = shape.slots;
    decode.kept_texts = shape.kept;
    if (shape.strategy != Strategy::kIterative)
      decode.guess_cells = kTextGuesses, decode.sequences = {0, kTextGuesses + 1}, decode.lookup = true;
    wire::Start start;
    start.batch = decode.batch;
    start.pipelines = {plan_of(decode, shape.contexts * kTextContext + decode.guess_cells)};
    const auto make = [this](const wire::PipelinePlan& plan, std::size_t place, CacheTypes types,
                             const GroupMember& group) -> std::unique_ptr<StageModel> {
      const ContextOptions options{.cells = plan.cells,
                                   .sequences = plan.sequences,
                                   .cache_types = types,
                                   .group = group,
                                   .window_cells = plan.window_cells,
                                   .texts = plan.texts()};
      return std::make_unique<TransformerStage>(model_.file, model_.h, plan.layers[place], options, unit_);
    };
    head_.start(
        hello_of(0), std::vector<std::uint64_t>(1, 42), [&](const auto&) { return start; }, make);
    GuessSources sources(cluster_.head());
    if (decode.lookup) sources.add_suffixes();
    engine_.emplace(head_, std::move(sources), decode);
  }
  ~TinyJob() { head_.stop(0); }
  Engine& engine() { return *engine_; }

  std::vector<Completion> ask(std::vector<Request> requests) {
    std::deque<TextObserver> told(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) engine_->submit(std::move(requests[i]), told[i]);
    engine_->run();
    std::vector<Completion> all;
    for (TextObserver& observer : told) all.push_back(std::move(observer.completion.value()));
    return all;
  }

 private:
  static ModelFile open(const std::string& variant) {
    const TemporaryFolder folder;
    families_test::write_tiny_model(variant, TensorType::F32, folder / "tiny.gguf");
    return ModelFile::open(folder / "tiny.gguf");
  }
  wire::PipelinePlan plan_of(const DecodeOptions& decode, std::int32_t cells) const {
    wire::PipelinePlan target{.ranks = {0}, .layers = {{0, model_.h.layers}}, .cells = cells};
    target.slots = decode.slots;
    target.slot_sequences = decode.sequences.end;
    target.sequences = decode.all_sequences() + decode.kept_texts;
    target.checkpoints = decode.kept_texts;
    target.window_cells = window_cells(model_.h, cells, decode.guess_cells, decode.batch, false, target.texts());
    EXPECT_GT(target.window_cells, 0) << "as many as the table's";
    return target;
  }

  const ModelFile model_;
  CpuUnit unit_;
  LocalCluster cluster_;
  Head head_;
  std::optional<Engine> engine_;
};

Request request(Ids prompt, std::int32_t tokens, bool reuse = true) {
  Request request;
  request.prompt = std::move(prompt);
  request.generate = tokens;
  request.sampling.temperature = 1.5f;
  request.sampling.seed = 3;
  request.reuse = reuse;
  request.checksum = true;
  return request;
}

Ids some(std::mt19937& random, std::size_t count) {
  Ids ids(count);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(3 + random() % 40);
  return ids;
}

class TinyModels : public testing::TestWithParam<std::string> {};

std::vector<std::string> tiny_models() {
  if (!thorough()) return {"gemma3", "qwen35"};
  return {"granitehybrid", "lfm2", "nemotron_h", "qwen35", "qwen3next", "gemma3", "gemma4-shared", "gpt-oss", "exaone4-windows"};
}

TEST_P(TinyModels, TextsThatBeginAtACheckpoint_haveTheBitsOfOthers) {
  for (const Strategy strategy : {Strategy::kIterative, Strategy::kSpeculative, Strategy::kPipeInfer}) {
    TinyJob job(GetParam(), {.strategy = strategy, .contexts = 2});
    std::mt19937 random(3);
    const Ids beginning = some(random, 50);
    Ids text = beginning;
    std::size_t cached = 0;
    for (int i = 0; i < 9; ++i) {
      Ids prompt = i % 3 == 2 ? beginning : text;
      if (prompt.size() > 100) prompt.resize(60);
      for (const std::int32_t id : some(random, i % 4)) prompt.push_back(id);
      const Completion with = job.ask({request(prompt, 12)}).front(), without = job.ask({request(prompt, 12, false)}).front();
      EXPECT_EQ(with.token_ids, without.token_ids) << "request " << i;
      EXPECT_EQ(with.logits_checksum, without.logits_checksum) << "request " << i;
      EXPECT_EQ(without.cached_tokens, 0u);
      cached += with.cached_tokens;
      text = prompt;
      text.insert(text.end(), with.token_ids.begin(), with.token_ids.end());
    }
    EXPECT_GT(cached, 200u);
  }
}

/// Prompts of all lengths up to more than three windows, of which some begin alike; so much text that some are paused.
TEST_P(TinyModels, TextsAtTheSameTime_haveTheBitsOfEachAlone) {
  std::mt19937 random(5);
  const Ids beginning = some(random, 40);
  std::vector<Request> requests;
  for (int i = 0; i < 8; ++i) {
    Ids prompt = i % 2 == 0 ? beginning : Ids{};
    for (const std::int32_t id : some(random, 1 + random() % 40)) prompt.push_back(id);
    requests.push_back(request(std::move(prompt), 20 + static_cast<std::int32_t>(random() % 40)));
    requests.back().sampling.seed = random();
  }
  std::vector<Completion> alone;
  TinyJob single(GetParam(), {.kept = 0});
  for (const Request& each : requests) alone.push_back(single.ask({each}).front());
  std::uint64_t pauses = 0;
  for (const Strategy strategy : {Strategy::kIterative, Strategy::kSpeculative, Strategy::kPipeInfer}) {
    for (const int kept : {0, 2}) {
      TinyJob job(GetParam(), {.strategy = strategy, .slots = 4, .kept = kept});
      const std::vector<Completion> together = job.ask(requests);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(together[i].token_ids, alone[i].token_ids) << "request " << i << ", strategy " << static_cast<int>(strategy);
        EXPECT_EQ(together[i].logits_checksum, alone[i].logits_checksum) << "request " << i;
      }
      pauses += job.engine().pauses();
    }
  }
  EXPECT_GT(pauses, 0u);
}

INSTANTIATE_TEST_SUITE_P(With, TinyModels, testing::ValuesIn(tiny_models()), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace yamata::test
