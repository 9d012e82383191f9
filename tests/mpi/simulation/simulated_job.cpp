#include "tests/mpi/simulation/simulated_job.hpp"

#include <algorithm>

namespace yamata::test {
namespace {

constexpr std::int32_t kVocabulary = 8, kContext = SimulatedJob::kContext, kGuessCells = 24;
constexpr std::int64_t kActionNs = 5000;  // so short that no rank falls silent by chance

int size_of(const JobShape& shape) {
  int ranks = shape.stages + shape.idle;
  for (const int drafter : shape.drafters) ranks += drafter;
  return ranks;
}

}  // namespace

SimulatedJob::SimulatedJob(const JobShape& shape)
    : shape_(shape), random_(shape.seed), clock_(time_ns_), network_(size_of(shape)), ranks_(static_cast<std::size_t>(size_of(shape))) {
  decode.strategy = shape.strategy;
  decode.policy.name = shape.policy;
  decode.lookup = shape.lookup;
  decode.context = kContext;
  decode.batch = 4;
  decode.slots = shape.slots;
  decode.kept_texts = shape.kept_texts;
  if (shape.strategy != Strategy::kIterative) {
    decode.guess_cells = shape.states ? kGuessCells / 3 : kGuessCells;  // so few that every one is needed
    decode.sequences = {0, decode.guess_cells + 1};
  }
  make_plan();
  for (int r = 0; r < size(); ++r) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    rank.transport = std::make_unique<SimulatedTransport>(network_, r, size());
    rank.setup.timeout = kTimeout;
    rank.setup.host = "host" + std::to_string(r);
    rank.setup.open = [this, r] { return hello_of(r); };
    rank.setup.make_stage = factory(r);
    rank.setup.launcher_gone = &rank.launcher_gone;
    rank.setup.reaches_launcher = [] { return std::optional(true); };
  }
}

void SimulatedJob::make_plan() {
  const auto add = [&](int model, int first, int count, std::int32_t cells, std::int32_t each, std::int32_t kept) {
    wire::PipelinePlan pipeline;
    pipeline.model = model;
    for (int r = 0; r < count; ++r) {
      pipeline.ranks.push_back(first + r);
      pipeline.layers.push_back({r, r + 1});
    }
    pipeline.cells = cells;
    pipeline.slots = shape_.slots;
    pipeline.slot_sequences = each;
    pipeline.sequences = shape_.slots * each + kept;
    plan_.pipelines.push_back(pipeline);
  };
  plan_.batch = decode.batch;
  plan_.trace = true;
  plan_.draft.credit = 12;
  plan_.draft.sequences = shape_.sequences;
  const int contexts = shape_.contexts > 0 ? shape_.contexts : shape_.slots;
  add(0, 0, shape_.stages, contexts * kContext + decode.guess_cells, decode.sequences.end, decode.kept_texts);
  if (shape_.window > 0 || shape_.states) plan_.pipelines[0].checkpoints = decode.kept_texts;
  limit_cells(plan_.pipelines[0], std::max(decode.batch, decode.slots), decode.guess_cells);
  int next = shape_.stages;
  for (std::size_t d = 0; d < shape_.drafters.size(); ++d) {
    const int count = shape_.drafters[d];
    add(static_cast<int>(d) + 1, count == 0 ? 0 : next, std::max(1, count), contexts * kContext + shape_.slots * plan_.draft.credit,
        plan_.draft.credit + 1, shape_.kept_texts);
    limit_cells(plan_.pipelines.back(), StepCost::kOfAText + 1, shape_.slots * plan_.draft.credit);
    next += count;
  }
}

/// Layers with a window, or with states, keep as little as they need.
void SimulatedJob::limit_cells(wire::PipelinePlan& pipeline, int rows, int guesses) const {
  const std::int64_t in_windows = WindowCells::enough(shape_.window, rows, guesses, pipeline.slots + pipeline.checkpoints);
  if (shape_.window > 0) pipeline.window_cells = std::min(pipeline.cells, static_cast<std::int32_t>(in_windows));
  const int kept = pipeline.model == 0 ? guesses : 2 * guesses;
  const auto inputs = static_cast<std::int32_t>(StateCells::enough(kept, pipeline.slots));
  if (has_states(pipeline)) pipeline.window_cells = std::min(pipeline.cells, inputs);
}

wire::Hello SimulatedJob::hello_of(int rank) const {
  wire::Hello hello;
  hello.version = "test";
  hello.host = "host" + std::to_string(rank);
  hello.fingerprints.assign(plan_.pipelines.size(), 42);
  return hello;
}

StageFactory SimulatedJob::factory(int rank) {
  return [this, rank](const wire::PipelinePlan& pipeline, std::size_t stage, CacheTypes, const GroupMember&) {
    simulation::TableShape shape;
    shape.stage = static_cast<std::int32_t>(stage);
    shape.stages = static_cast<std::int32_t>(pipeline.ranks.size());
    shape.cells = pipeline.cells;
    shape.sequences = pipeline.sequences;
    shape.vocabulary = kVocabulary;
    shape.texts = pipeline.texts();
    if (has_states(pipeline)) shape.state_inputs = pipeline.window_cells;
    if (shape_.window > 0) shape.window = shape_.window, shape.window_cells = pipeline.window_cells;
    shape.operations = 3;
    const std::uint64_t seed = shape_.seed, draft = static_cast<std::uint64_t>(pipeline.model);
    shape.logits = [seed, draft, disagreement = shape_.disagreement](std::uint64_t prefix, std::span<float> logits) {
      const bool differs = draft > 0 && simulation::share(simulation::mix(prefix, draft)) < disagreement;
      table_logits(prefix, differs ? simulation::mix(seed, draft) : seed, logits);
    };
    return std::make_unique<simulation::TableModel>(shape, ranks_[static_cast<std::size_t>(rank)].unit);
  };
}

void SimulatedJob::start() {
  engine_.reset();
  head_.reset();
  for (std::size_t r = 1; r < ranks_.size(); ++r) {
    ranks_[r].worker = std::make_unique<Worker>(*ranks_[r].transport, ranks_[r].setup);
    ranks_[r].worker->begin();
  }
  ClusterOptions options;
  options.timeout = kTimeout;
  options.interrupted = &interrupted;
  options.probes_links = shape_.probes_links;
  options.on_warning = [this](const std::string& text) { warnings.push_back(text); };
  head_ = std::make_unique<Head>(*ranks_[0].transport, options);
  head_->begin(
      hello_of(0), hello_of(0).fingerprints, [this](const auto&) { return plan_; }, factory(0));
  until([&] { return head_->state() == Head::State::kServing; });
  GuessSources sources(*ranks_[0].transport);
  for (std::size_t d = 0; d < shape_.drafters.size(); ++d)
    sources.add_drafter({.rank = drafter_rank(d), .model = static_cast<int>(d) + 1}, VocabularyMap{}, 0.25);
  if (decode.lookup) sources.add_suffixes();
  engine_ = std::make_unique<Engine>(*head_, std::move(sources), decode);
}

void SimulatedJob::step(std::size_t index) {
  Rank& rank = ranks_[index];
  if (rank.parting) {
    rank.parting->step();
  } else if (index > 0) {
    if (!rank.worker->ended()) rank.worker->step();
  } else {
    if (head_->state() != Head::State::kStopped) head_->step();
    if (engine_ && head_->state() == Head::State::kServing) engine_->advance();
  }
}

void SimulatedJob::act() {
  time_ns_ += kActionNs;
  const std::size_t index = random_() % ranks_.size();
  const auto what = random_() % 3;
  if (what == 0) {
    network_.deliver_one(random_);
  } else if (!ranks_[index].stopped) {
    what == 1 ? step(index) : ranks_[index].unit.tick();
  }
}

std::vector<std::int32_t> SimulatedJob::text_after(std::vector<std::int32_t> prompt, std::int32_t tokens,
                                                   const SamplingParams& sampling) const {
  std::vector<std::int32_t> text;
  Sampler sampler(sampling);
  for (std::int32_t i = 0; i < tokens; ++i) {
    std::vector<float> logits(kVocabulary);
    table_logits(simulation::prefix_hash(prompt), shape_.seed, logits);
    text.push_back(sampler.sample(logits, prompt, static_cast<std::int64_t>(prompt.size())));
    prompt.push_back(text.back());
  }
  return text;
}

std::vector<std::int32_t> SimulatedJob::random_prompt() {
  std::vector<std::int32_t> prompt(1 + random_() % 9);
  for (std::int32_t& token : prompt) token = static_cast<std::int32_t>(random_() % kVocabulary);
  return prompt;
}

std::map<int, bool> SimulatedJob::disconnect(std::chrono::milliseconds suspended) {
  for (Rank& rank : ranks_) {
    if (!rank.stopped) rank.parting = std::make_unique<Disconnect>(*rank.transport, kTimeout, 4 * kTimeout);
  }
  suspend(suspended);
  until([&] { return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.stopped || rank.parting->over(); }); });
  std::map<int, bool> together;
  for (int r = 0; r < size(); ++r) {
    const Rank& rank = ranks_[static_cast<std::size_t>(r)];
    if (!rank.stopped) together[r] = rank.parting->together();
  }
  return together;
}

}  // namespace yamata::test
