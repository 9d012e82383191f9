#include "mpi/simulation/ranks.hpp"

#include <numeric>
#include <stdexcept>

namespace yamata::simulation {
namespace {

std::vector<int> consecutive(int first, std::size_t count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

}  // namespace

Ranks::Ranks(const std::vector<RankParts>& parts) {
  for (const RankParts& rank : parts) ranks_.push_back({rank, nullptr, nullptr, nullptr});
}

std::unique_ptr<Pipeline> Ranks::build(const PipelineRanks& place, const std::vector<TableShape>& stages) {
  std::unique_ptr<Pipeline> pipeline;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    Rank& rank = ranks_.at(static_cast<std::size_t>(place.ranks[s]));
    auto model = std::make_unique<TableModel>(stages[s], *rank.parts.unit);
    if (place.channel.record == kTargetChannel.record) target_models_.push_back(model.get());
    if (s == 0) {
      pipeline = std::make_unique<Pipeline>(*rank.parts.transport, place, std::move(model), stages[s].cells, stages[s].sequences);
      pipeline->stage().load();
      continue;
    }
    rank.channel = place.channel;
    rank.model = std::move(model);
    rank.stage = std::make_unique<Stage>(*rank.model, *rank.parts.transport, place);
    rank.stage->load();
  }
  return pipeline;
}

void Ranks::add_target(const std::vector<TableShape>& stages) {
  for (const TableShape& stage : stages) target_row_ns_ += stage.one_row_ns;
  target_ = build({kTargetChannel, consecutive(0, stages.size())}, stages);
}

void Ranks::add_drafter(int first, const std::vector<TableShape>& stages, const DraftOptions& options, std::int32_t context,
                        std::int32_t batch) {
  const int count = static_cast<int>(stages.size());
  auto pipeline = build({kDraftChannel, consecutive(first, stages.size())}, stages);
  Rank& rank = ranks_[static_cast<std::size_t>(first)];
  if (first > 0) rank.channel = kDraftChannel;
  rank.drafter = std::make_unique<Drafter>(*rank.parts.transport, std::move(pipeline), options, context,
                                           SequenceRange{0, stages.front().sequences}, batch);
  drafters_.push_back({first, count, stages.front().one_row_ns});
}

void Ranks::make_sources(bool lookup) {
  sources_ = std::make_unique<GuessSources>(*ranks_[0].parts.transport);
  for (const DrafterRanks& drafter : drafters_) {
    const double cost = target_row_ns_ > 0 ? static_cast<double>(drafter.one_row_ns) / static_cast<double>(target_row_ns_) : 0;
    sources_->add_drafter(drafter.first, VocabularyMap{}, cost);
  }
  if (lookup) sources_->add_lookup();
  if (add_sources) add_sources(*sources_);
}

void Ranks::begin(const std::vector<std::int32_t>& prompt, const DecodeOptions& options, Decoder::Choose choose,
                  Decoder::OnToken on_token) {
  if (!sources_) make_sources(options.lookup);
  DecodeOptions decode = options;
  decode.request = ++requests_;
  decoder_ = std::make_unique<Decoder>(*target_, *sources_, decode, std::move(choose), std::move(on_token));
  decoder_->begin(prompt);
}

void Ranks::dispatch(std::size_t index, Message message) {
  Rank& rank = ranks_[index];
  if (on_message) on_message(index, message);
  if (index == 0 && message.tag == Tag::kGuesses) return decoder_->on_guesses(message.from, wire::decode_guesses(message.bytes));
  if (index == 0 && kTargetChannel.carries(message.tag)) return target_->on_message(std::move(message));
  if (message.tag == Tag::kCommit) return rank.drafter->on_commit(wire::decode_commit(message.bytes));
  if (rank.drafter) return rank.drafter->pipeline().on_message(std::move(message));
  if (message.tag == rank.channel.record) return rank.stage->on_record(std::move(message.bytes));
  if (message.tag == rank.channel.activations) return rank.stage->on_activations(std::move(message.bytes));
  if (message.tag == rank.channel.cancel) return rank.stage->on_cancel(wire::decode_cancel(message.bytes));
  throw std::logic_error("a message nobody takes");
}

bool Ranks::step(std::size_t index) {
  Rank& rank = ranks_[index];
  bool anything = false;
  while (auto message = rank.parts.transport->receive()) {
    anything = true;
    if (!rank.dead) dispatch(index, std::move(*message));
  }
  if (rank.dead) return anything;
  if (rank.drafter) anything |= rank.drafter->advance();
  if (rank.stage) anything |= rank.stage->advance();
  if (index == 0) {
    anything |= target_->advance();
    anything |= decoder_->advance();
  }
  return anything;
}

void Ranks::kill_drafter(std::size_t index, bool noticed) {
  const auto [first, count, row_ns] = drafters_.at(index);
  if (first == 0) return;
  for (int r = first; r < first + count; ++r) ranks_[static_cast<std::size_t>(r)].dead = true;
  if (noticed) decoder_->drop_drafter(first);
}

}  // namespace yamata::simulation
