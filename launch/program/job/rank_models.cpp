#include "launch/program/job/rank_models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <system_error>
#include <utility>

#include "mpi/protocol/validate.hpp"
#include "node/error.hpp"
#include "src/model/weights.hpp"

namespace yamata {

RankModels::RankModels(const ModelFiles& files, const FetchOptions& fetch, const std::string& host)
    : files_(files),
      fetched_(fetch, host),
      models_(1 + files.drafts.size()),
      draft_heads_(files.draft_heads.size()),
      fingerprints_(models_.size() + draft_heads_.size()) {}

const std::string& RankModels::path(std::size_t model) const {
  if (model == 0) return files_.target;
  return is_draft_heads(static_cast<int>(model)) ? files_.draft_heads[model - models_.size()] : files_.drafts[model - 1];
}

void RankModels::open(const JobLayout& layout, int rank, CacheTypes cache_types) {
  open_transformers(layout, rank);
  open_draft_heads(layout, rank, cache_types);
}

bool RankModels::opens(std::size_t model, const JobLayout& layout, int rank) const {
  const std::size_t own = layout.model_of(rank);
  if (rank == 0 || model == own) return true;
  if (model >= models_.size()) return false;
  const bool reads_target = model == 0 && is_draft_heads(static_cast<int>(own));
  return layout.is_open() || layout.drafters_are_open() || reads_target;
}

std::vector<std::int32_t> RankModels::absent(const JobLayout& layout, int rank) const {
  std::vector<std::int32_t> models;
  for (std::size_t model = 0; rank != 0 && model < models_.size() + draft_heads_.size(); ++model) {
    if (!is_mtp(model) && opens(model, layout, rank) && fetched_.replaces(path(model))) models.push_back(static_cast<std::int32_t>(model));
  }
  return models;
}

void RankModels::take_files(std::size_t model, fetch::ModelShape shape) { fetched_.take(model, std::move(shape), model >= models_.size()); }

std::vector<FetchTask> RankModels::heads_to_fetch() const {
  std::vector<FetchTask> tasks;
  for (std::size_t model = models_.size(); model < models_.size() + draft_heads_.size(); ++model) {
    const auto copy = fetched_.find(model);
    if (!copy) continue;
    std::vector<std::uint64_t> chunks(static_cast<std::size_t>(copy->map().count()));
    std::iota(chunks.begin(), chunks.end(), 0);
    tasks.push_back({static_cast<std::int32_t>(model), copy, std::move(chunks)});
  }
  return tasks;
}

std::vector<FetchTask> RankModels::weights_to_fetch(const wire::Start& plan, int rank) const {
  std::vector<FetchTask> tasks;
  for (std::size_t model = 0; model < models_.size(); ++model) {
    const auto copy = fetched_.find(model);
    if (!copy || !has(model)) continue;
    const ModelFile& file = *find(model);
    NeededChunks needed(file, *copy);
    for (const wire::PipelinePlan& part : plan.pipelines) {
      const auto place = part.place_of(rank);
      if (!place) continue;
      const auto of = static_cast<std::size_t>(part.model);
      if (of == model) {
        wire::validate_layers(part, file.h.layers, 0);
        const GroupMember member = part.member(*place);
        needed.add_stage(part.layers.at(*place), Shard(file.h, member.shares, member.member));
      } else if (model == 0 && is_draft_heads(part.model)) {
        needed.add_for_heads(is_mtp(of));
      }
    }
    if (auto chunks = needed.take(); !chunks.empty()) tasks.push_back({static_cast<std::int32_t>(model), copy, std::move(chunks)});
  }
  return tasks;
}

/// Opens the models that this rank will hold; if that is undecided, all that exist on its machine.
void RankModels::open_transformers(const JobLayout& layout, int rank) {
  const bool open = (layout.is_open() || layout.drafters_are_open()) && rank != 0;
  const std::size_t own = layout.model_of(rank);
  for (std::size_t m = 0; m < models_.size(); ++m) {
    if (!opens(m, layout, rank)) continue;
    try {
      const auto copy = fetched_.find(m);
      models_[m] = copy ? ModelFile::of(fetch::FetchedModel::open(copy, path(m))) : ModelFile::open(path(m));
      fingerprints_[m] = models_[m]->file.fingerprint();
      if (m == own || fingerprints_[own] == 0) own_ = m;
    } catch (const Error&) {
      const bool another = std::any_of(models_.begin(), models_.end(), [](const auto& model) { return model.has_value(); });
      std::error_code unseen;
      const bool absent = !std::filesystem::exists(path(m), unseen) && !unseen;  // a damaged file is an error
      if (!open || !absent || (m + 1 == models_.size() && !another)) throw;
    }
  }
}

/// Opens those on this rank, and on rank 0 all, so that heads that do not fit the target are refused before anything is loaded.
void RankModels::open_draft_heads(const JobLayout& layout, int rank, CacheTypes cache_types) {
  const std::size_t own = layout.model_of(rank);
  for (std::size_t i = 0; i < draft_heads_.size(); ++i) {
    const std::size_t model = models_.size() + i;
    if (!opens(model, layout, rank)) continue;
    const std::string from = fetched_.find(model) ? fetched_.heads_path(model) : path(model);
    DraftHeads& draft_heads = draft_heads_[i];
    draft_heads.file = is_mtp(model) ? draft_heads::DraftHeadsFile::in_target(target().file)
                                     : draft_heads::DraftHeadsFile::open(from, draft_heads::find_kind(files_.draft_heads_kind));
    draft_heads.needs = draft_heads.file->needs(target(), {0, 1, cache_types}, files_.draft_heads_matrices);
    fingerprints_[model] = draft_heads.file->fingerprint();
    if (model == own) own_ = model;
  }
  fetched_.remove_temporary();
}

bool RankModels::has(std::size_t model) const {
  if (model < models_.size()) return models_[model].has_value();
  return model < models_.size() + draft_heads_.size() && draft_heads_[model - models_.size()].file;
}

const ModelFile* RankModels::find(std::size_t model) const { return model < models_.size() && models_[model] ? &*models_[model] : nullptr; }

std::vector<const ModelFile*> RankModels::transformers() const {
  std::vector<const ModelFile*> all;
  for (const auto& model : models_) all.push_back(&*model);
  return all;
}

std::string RankModels::source_name(int model) const {
  return is_draft_heads(model) ? fmt::format("{} heads", draft_heads::kind_name(heads_of(model).file->kind())) : "draft model";
}

std::vector<std::int32_t> RankModels::feature_layers(int model) const {
  return is_draft_heads(model) ? heads_of(model).needs.feature_layers : std::vector<std::int32_t>{};
}

double RankModels::relative_cost(int model) const {
  const auto bytes = [](const ModelFile& m) { return static_cast<double>(read_bytes(m.file, m.h, {0, m.h.layers})); };
  if (is_draft_heads(model)) return static_cast<double>(heads_of(model).needs.evaluation_bytes) / bytes(target());
  return bytes(*models_[static_cast<std::size_t>(model)]) / bytes(target());
}

std::vector<RankBytes> RankModels::draft_heads_bytes(int batch) const {
  std::vector<RankBytes> bytes;
  for (const DraftHeads& h : draft_heads_)
    bytes.push_back({h.needs.weight_bytes, h.needs.cache_per_cell, h.needs.row_bytes * static_cast<std::uint64_t>(batch)});
  return bytes;
}

std::unique_ptr<StageModel> RankModels::make_draft_heads(std::size_t model, const ContextOptions& options, ComputeUnit& unit) const {
  return heads_of(static_cast<int>(model)).file->make_stage(target(), options, files_.draft_heads_matrices, unit);
}

std::uint64_t RankModels::mapped_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& model : models_) bytes += model ? model->file.resident_bytes() : 0;
  for (const DraftHeads& draft_heads : draft_heads_) bytes += draft_heads.file ? draft_heads.file->resident_bytes() : 0;
  return bytes;
}

void RankModels::release_pages() const {
  for (const auto& model : models_) {
    if (model) model->file.release_pages();
  }
}

}  // namespace yamata
