#include "launch/program/job/rank_models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "node/error.hpp"
#include "src/model/weights.hpp"

namespace yamata {

RankModels::RankModels(const ModelFiles& files)
    : files_(files),
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

/// Opens the models that this rank will hold; if that is undecided, all that exist on its machine.
void RankModels::open_transformers(const JobLayout& layout, int rank) {
  const bool open = (layout.is_open() || layout.drafters_are_open()) && rank != 0;
  const std::size_t own = layout.model_of(rank);
  for (std::size_t m = 0; m < models_.size(); ++m) {
    const bool reads_target = m == 0 && is_draft_heads(static_cast<int>(own));
    if (rank != 0 && m != own && !open && !reads_target) continue;
    try {
      models_[m] = ModelFile::open(path(m));
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
    if (rank != 0 && model != own) continue;
    DraftHeads& draft_heads = draft_heads_[i];
    draft_heads.file = files_.mtp && i + 1 == draft_heads_.size()
                           ? draft_heads::DraftHeadsFile::in_target(target().file)
                           : draft_heads::DraftHeadsFile::open(path(model), draft_heads::find_kind(files_.draft_heads_kind));
    draft_heads.needs = draft_heads.file->needs(target(), {0, 1, cache_types}, files_.draft_heads_matrices);
    fingerprints_[model] = draft_heads.file->fingerprint();
    if (model == own) own_ = model;
  }
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
