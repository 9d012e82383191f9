// A small model with states: texts that begin at a kept state are the same, to the bits of their logits.
#include <gtest/gtest.h>

#include <random>

#include "cache/state_cells.hpp"
#include "mpi/engine/engine.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/mpi/local_cluster.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::test {
namespace {

struct StatesObserver final : RequestObserver {
  void on_finished(Completion c) override { completion = std::move(c); }
  std::optional<Completion> completion;
};

/// One rank.
class StatesJob {
 public:
  explicit StatesJob(Strategy strategy) : unit_({-1}, cpu::choose_isa()), cluster_(1), head_(cluster_.head(), {}) {
    constexpr std::int32_t kContext = 160, kGuessCells = 16, kKept = 6;
    families_test::write_tiny_model("qwen35", TensorType::F32, folder_ / "states.gguf");
    model_.emplace(ModelFile::open(folder_ / "states.gguf"));
    DecodeOptions decode;
    decode.strategy = strategy;
    decode.context = kContext;
    decode.batch = 16;
    decode.kept_texts = kKept;
    if (strategy != Strategy::kIterative) decode.guess_cells = kGuessCells, decode.sequences = {0, kGuessCells + 1}, decode.lookup = true;
    wire::PipelinePlan target{.ranks = {0}, .layers = {{0, model_->h.layers}}, .cells = kContext + decode.guess_cells};
    target.sequences = decode.sequences.end + kKept;
    target.window_cells = static_cast<std::int32_t>(StateCells::enough(decode.guess_cells));
    target.kept_states = kKept;
    wire::Start start;
    start.batch = decode.batch;
    start.pipelines = {target};
    const auto make = [this](const wire::PipelinePlan& plan, std::size_t place, CacheTypes types,
                             const GroupMember& group) -> std::unique_ptr<StageModel> {
      const ContextOptions options{.cells = plan.cells,
                                   .sequences = plan.sequences,
                                   .cache_types = types,
                                   .group = group,
                                   .window_cells = plan.window_cells,
                                   .kept_states = plan.kept_states};
      return std::make_unique<TransformerStage>(model_->file, model_->h, plan.layers[place], options, unit_);
    };
    head_.start(
        hello_of(0), std::vector<std::uint64_t>(1, 42), [&](const auto&) { return start; }, make);
    GuessSources sources(cluster_.head());
    if (decode.lookup) sources.add_suffixes();
    engine_.emplace(head_, std::move(sources), decode);
  }
  ~StatesJob() { head_.stop(0); }
  Completion ask(std::vector<std::int32_t> prompt, std::int32_t tokens, bool reuse) {
    Request request;
    request.prompt = std::move(prompt);
    request.generate = tokens;
    request.sampling.temperature = 1.5f;
    request.sampling.seed = 3;
    request.reuse = reuse;
    request.checksum = true;
    StatesObserver told;
    engine_->submit(std::move(request), told);
    engine_->run();
    return std::move(told.completion.value());
  }

 private:
  const TemporaryFolder folder_;
  std::optional<ModelFile> model_;
  CpuUnit unit_;
  LocalCluster cluster_;
  Head head_;
  std::optional<Engine> engine_;
};

TEST(KeptStates, TextsThatBeginAtOne_haveTheBitsOfOthers) {
  for (const Strategy strategy : {Strategy::kIterative, Strategy::kSpeculative, Strategy::kPipeInfer}) {
    StatesJob job(strategy);
    std::mt19937 random(3);
    const auto some = [&](std::size_t count) {
      std::vector<std::int32_t> ids(count);
      for (std::int32_t& id : ids) id = static_cast<std::int32_t>(3 + random() % 40);
      return ids;
    };
    const std::vector<std::int32_t> beginning = some(50);
    std::vector<std::int32_t> text = beginning;
    std::size_t cached = 0;
    for (int request = 0; request < 9; ++request) {
      std::vector<std::int32_t> prompt = request % 3 == 2 ? beginning : text;
      if (prompt.size() > 100) prompt.resize(60);
      for (const std::int32_t id : some(request % 4)) prompt.push_back(id);
      const Completion with = job.ask(prompt, 12, true), without = job.ask(prompt, 12, false);
      EXPECT_EQ(with.token_ids, without.token_ids) << "request " << request;
      EXPECT_EQ(with.logits_checksum, without.logits_checksum) << "request " << request;
      EXPECT_EQ(without.cached_tokens, 0u);
      cached += with.cached_tokens;
      text = prompt;
      text.insert(text.end(), with.token_ids.begin(), with.token_ids.end());
    }
    EXPECT_GT(cached, 200u);
  }
}

}  // namespace
}  // namespace yamata::test
