#pragma once
// The models that a rank has opened.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/program/job/fetched_models.hpp"
#include "launch/program/job/job_layout.hpp"
#include "launch/program/options/options.hpp"
#include "mpi/cluster/weights_fetch.hpp"
#include "mpi/planning/memory_plan.hpp"
#include "node/compute_unit.hpp"
#include "src/draft_heads/draft_heads_file.hpp"
#include "src/model/model_file.hpp"
#include "src/model/stage_model.hpp"

namespace yamata {

/// Models are numbered as in the layout: 0 is the target, then the drafts, then draft heads. Rank 0 has all of them, another rank those
/// that it needs or may have to hold.
class RankModels {
 public:
  explicit RankModels(const ModelFiles& files, const FetchOptions& fetch = {}, const std::string& host = "");

  // Before open(), on ranks other than 0: as JobRank.
  std::vector<std::int32_t> absent(const JobLayout& layout, int rank) const;
  void take_files(std::size_t model, fetch::ModelShape shape);
  std::vector<FetchTask> heads_to_fetch() const;
  bool fetches_to_memory() const { return fetched_.fill_memory(); }
  /// After it.
  std::vector<FetchTask> weights_to_fetch(const wire::Start& plan, int rank) const;

  /// Opens this rank's models. If the layout is open, those that exist on its machine or are fetched. Throws ModelError if one of them is
  /// missing, damaged or, of heads, does not fit the target.
  void open(const JobLayout& layout, int rank, CacheTypes cache_types);
  /// The number of this rank's own model; if the layout is open, the first that it has.
  std::size_t own() const { return own_; }
  /// Of all models; 0: not opened.
  const std::vector<std::uint64_t>& fingerprints() const { return fingerprints_; }

  const ModelFiles& files() const { return files_; }
  /// Whether this rank has opened it.
  bool has(std::size_t model) const;
  /// The target, if this rank has it, as rank 0 does.
  const ModelFile& target() const { return *models_.front(); }
  /// The target or a draft; nullptr if it is not open or if these are heads.
  const ModelFile* find(std::size_t model) const;
  /// The target and the drafts. On rank 0.
  std::vector<const ModelFile*> transformers() const;
  /// Whether a model is draft heads, which read the target's hidden states.
  bool is_draft_heads(int model) const { return static_cast<std::size_t>(model) >= models_.size(); }
  const std::string& path(std::size_t model) const;
  /// The name of a draft or of heads, for users.
  std::string source_name(int model) const;
  /// The layers whose features these heads read; empty: it is a draft. On rank 0.
  std::vector<std::int32_t> feature_layers(int model) const;
  /// Cost of a token in that model relative to the target: the ratio of their bytes. On rank 0.
  double relative_cost(int model) const;
  /// Memory of each of the heads, with buffers for runs of `batch` tokens. On rank 0.
  std::vector<RankBytes> draft_heads_bytes(int batch) const;
  /// Heads that this rank has opened, as a stage on `unit`.
  std::unique_ptr<StageModel> make_draft_heads(std::size_t model, const ContextOptions& options, ComputeUnit& unit) const;

  /// Bytes of the files whose pages this process has mapped in.
  std::uint64_t mapped_bytes() const;
  /// Gives up these pages; they are mapped in again as they are read.
  void release_pages() const;

 private:
  struct DraftHeads {
    std::optional<draft_heads::DraftHeadsFile> file;
    draft_heads::Needs needs;
  };
  /// Whether a rank opens a model, if it can.
  bool opens(std::size_t model, const JobLayout& layout, int rank) const;
  void open_transformers(const JobLayout& layout, int rank);
  void open_draft_heads(const JobLayout& layout, int rank, CacheTypes cache_types);
  const DraftHeads& heads_of(int model) const { return draft_heads_[static_cast<std::size_t>(model) - models_.size()]; }

  bool is_mtp(std::size_t model) const { return files_.mtp && model + 1 == models_.size() + draft_heads_.size(); }

  const ModelFiles files_;
  FetchedModels fetched_;
  std::vector<std::optional<ModelFile>> models_;
  std::vector<DraftHeads> draft_heads_;
  std::vector<std::uint64_t> fingerprints_;
  std::size_t own_ = 0;
};

}  // namespace yamata
