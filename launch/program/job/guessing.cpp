#include "launch/program/job/guessing.hpp"

#include <ctime>
#include <string>
#include <utility>

#include "launch/program/planning/measurement_cache.hpp"

namespace yamata {

std::vector<std::string> vocabulary(const Tokenizer& tokenizer) {
  std::vector<std::string> texts;
  for (TokenId id = 0; id < tokenizer.size(); ++id) texts.push_back(tokenizer.text(id));
  return texts;
}

std::vector<VocabularyMap> map_vocabularies(const JobRank& rank, const Tokenizer& tokenizer, const std::string& pre_tokenizer) {
  std::vector<VocabularyMap> maps;
  const Layout& layout = rank.layout().places();
  for (std::size_t d = 1; d < layout.size(); ++d) {
    if (rank.models().is_draft_heads(layout[d].model)) {  // heads use the target's vocabulary
      maps.push_back({.to_target = {}, .to_draft = {}, .draft_tokens = tokenizer.size()});
      continue;
    }
    const auto draft = Tokenizer::load(rank.models().find(static_cast<std::size_t>(layout[d].model))->file, pre_tokenizer);
    maps.push_back(VocabularyMap::between(vocabulary(tokenizer), vocabulary(*draft)));
  }
  return maps;
}

void require_common_vocabulary(const ModelFile& target, const ModelFile& draft) {
  (void)VocabularyMap::between(vocabulary(*Tokenizer::load(target.file)), vocabulary(*Tokenizer::load(draft.file)));
}

GuessSources connect_sources(const Job& job, std::vector<VocabularyMap> maps, const DecodeOptions& options,
                             std::shared_ptr<SuffixMemory> memory) {
  const Layout& layout = job.rank().layout().places();
  const RankModels& models = job.rank().models();
  GuessSources sources(job.transport());
  for (std::size_t d = 1; d < layout.size(); ++d)
    sources.add_drafter({.rank = layout[d].ranks.front(),
                         .model = layout[d].model,
                         .name = models.source_name(layout[d].model),
                         .feature_layers = models.feature_layers(layout[d].model),
                         .one_text = job.planner().slots_of(layout[d]) == 1,
                         .own_unit = job.rank().units().has_draft_units()},
                        maps[d - 1], models.relative_cost(layout[d].model));
  if (options.lookup && options.prompt_lookup > 0)
    sources.add_prompt_lookup(options.prompt_lookup);
  else if (options.lookup && options.lookahead.on())
    sources.add_lookahead(options.lookahead);
  else if (options.lookup && options.datastore)
    sources.add_datastore(std::move(memory));
  else if (options.lookup)
    sources.add_suffixes(std::move(memory));
  return sources;
}

SavingsOfDrafts::SavingsOfDrafts(const JobExperience& experience, const DecodeOptions& decode, const SamplingParams& sampling,
                                 const GuessSources& sources) {
  for (DraftLink* drafter : sources.drafters()) {
    const KeptSavings& kept =
        of_drafters_.emplace_back(measurement_folder(), experience.savings_key(drafter->model(), decode, sampling), std::time(nullptr));
    if (kept.earlier()) drafter->begin_with(kept.earlier()->sums);
  }
}

void SavingsOfDrafts::keep(const GuessSources& sources) const {
  for (std::size_t d = 0; d < of_drafters_.size(); ++d)
    of_drafters_[d].keep(sources.drafters()[d]->balance().experience(), std::time(nullptr));
}

}  // namespace yamata
