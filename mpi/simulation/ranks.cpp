#include "mpi/simulation/ranks.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "src/simulation/draft_heads_table.hpp"

namespace yamata::simulation {
namespace {

std::vector<int> consecutive(int first, std::size_t count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

}  // namespace

Ranks::Ranks(const std::vector<RankParts>& parts) {
  for (const RankParts& rank : parts) ranks_.push_back({rank, std::make_unique<Dispatcher>(*rank.transport)});
}

void Ranks::add(int model, int first, const std::vector<TableShape>& stages) {
  wire::PipelinePlan pipeline;
  pipeline.model = model;
  pipeline.ranks = consecutive(first, stages.size());
  for (const TableShape& stage : stages) {
    pipeline.layers.push_back({stage.stage, stage.stage + 1});
    pipeline.shares.push_back(1);
  }
  pipeline.cells = stages.front().cells;
  pipeline.sequences = stages.front().sequences;
  pipeline.slots = stages.front().texts.slots;
  pipeline.slot_sequences = pipeline.sequences / pipeline.slots;
  plan_.pipelines.push_back(std::move(pipeline));
  shapes_.push_back(stages);
}

void Ranks::add_target(const std::vector<TableShape>& stages) {
  for (const TableShape& stage : stages) target_row_ns_ += stage.one_row_ns;
  add(0, 0, stages);
}

void Ranks::add_drafter(int first, const std::vector<TableShape>& stages, const DraftOptions& options, std::int32_t batch) {
  plan_.draft = options;
  plan_.batch = batch;
  add(static_cast<int>(drafters_.size()) + 1, first, stages);
  drafters_.push_back({first, static_cast<int>(stages.size()), stages.front().one_row_ns});
}

void Ranks::add_draft_heads(int first, const TableShape& shape, std::vector<std::int32_t> feature_layers, const DraftOptions& options,
                            std::int32_t batch) {
  feature_layers_[static_cast<int>(drafters_.size()) + 1] = std::move(feature_layers);
  add_drafter(first, {shape}, options, batch);
}

void Ranks::build() {
  for (Rank& rank : ranks_) {
    const auto make = [&](const wire::PipelinePlan& pipeline, std::size_t place, CacheTypes,
                          const GroupMember& group) -> std::unique_ptr<StageModel> {
      TableShape shape = shapes_.at(static_cast<std::size_t>(pipeline.model)).at(place);
      shape.exchange = static_cast<VirtualExchange*>(group.exchange);
      if (const auto draft_heads = feature_layers_.find(pipeline.model); draft_heads != feature_layers_.end())
        return std::make_unique<DraftHeadsTable>(shape, draft_heads->second, *rank.parts.unit);
      auto model = std::make_unique<TableModel>(shape, *rank.parts.unit);
      if (pipeline.model == 0) target_models_.push_back(model.get());
      return model;
    };
    rank.dispatcher->build(plan_, make);
    rank.dispatcher->load();
  }
}

GuessSources Ranks::make_sources(const DecodeOptions& options) {
  GuessSources sources(*ranks_[0].parts.transport);
  int model = 0;
  for (const DrafterRanks& drafter : drafters_) {
    const double cost = target_row_ns_ > 0 ? static_cast<double>(drafter.one_row_ns) / static_cast<double>(target_row_ns_) : 0;
    ++model;
    const auto draft_heads = feature_layers_.find(model);
    sources.add_drafter({.rank = drafter.first,
                         .model = model,
                         .feature_layers = draft_heads == feature_layers_.end() ? std::vector<std::int32_t>{} : draft_heads->second,
                         .one_text = plan_.pipelines.at(static_cast<std::size_t>(model)).slots == 1},
                        VocabularyMap{}, cost);
  }
  if (options.lookup && options.lookahead.on())
    sources.add_lookahead(options.lookahead);
  else if (options.lookup && options.prompt_lookup > 0)
    sources.add_prompt_lookup(options.prompt_lookup);
  else if (options.lookup && !options.datastore)
    sources.add_suffixes();
  if (add_sources) add_sources(sources);
  return sources;
}

void Ranks::begin(const std::vector<std::int32_t>& prompt, const DecodeOptions& options, Decoder::Choose choose,
                  Decoder::OnToken on_token) {
  if (requests_ == 0) {
    build();
    sources_ = std::make_unique<GuessSources>(make_sources(options));
    together_ = std::make_unique<Target>(target());
  }
  if (decoder_) decoder_->leave();
  DecodeOptions decode = options;
  decode.request = ++requests_;
  decoder_ = std::make_unique<Decoder>(*together_, *sources_, decode, std::move(choose), std::move(on_token));
  ranks_[0].dispatcher->on_guesses = [this](int rank, const wire::Guesses& guesses) {
    if (decoder_->request() == guesses.request) decoder_->on_guesses(rank, guesses);
  };
  decoder_->begin(prompt);
}

Engine& Ranks::serve(const DecodeOptions& options) {
  build();
  engine_ = std::make_unique<Engine>(target(), plan_.pipelines.front(), make_sources(options), options);
  ranks_[0].dispatcher->on_guesses = [this](int rank, const wire::Guesses& guesses) { engine_->on_guesses(rank, guesses); };
  return *engine_;
}

void Ranks::dispatch(std::size_t index, Message message) {
  if (on_message) on_message(index, message);
  if (!ranks_[index].dispatcher->dispatch(message)) throw std::logic_error("a message nobody takes");
}

bool Ranks::step(std::size_t index) {
  Rank& rank = ranks_[index];
  bool anything = false;
  while (auto message = rank.parts.transport->receive()) {
    anything = true;
    if (!rank.dead) dispatch(index, std::move(*message));
  }
  if (rank.dead) return anything;
  anything |= rank.dispatcher->advance();
  if (index == 0) anything |= engine_ ? engine_->advance() : decoder_->advance();
  return anything;
}

void Ranks::kill_drafter(std::size_t index, bool noticed) {
  const auto [first, count, row_ns] = drafters_.at(index);
  if (first == 0) return;
  for (int r = first; r < first + count; ++r) ranks_[static_cast<std::size_t>(r)].dead = true;
  if (noticed) engine_ ? engine_->on_drafter_lost(first) : decoder_->drop_drafter(first);
}

}  // namespace yamata::simulation
