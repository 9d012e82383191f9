#pragma once
// Models whose files are not on this rank's machine, and come from rank 0.
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "launch/program/options/options.hpp"
#include "src/fetch/fetched_model.hpp"
#include "src/model/model_file.hpp"
#include "src/model/shard.hpp"

namespace yamata {

/// This machine's copies, by the models' numbers in the job.
class FetchedModels {
 public:
  FetchedModels(FetchOptions options, std::string host) : options_(std::move(options)), host_(std::move(host)) {}

  /// Whether a file that is absent is fetched. Another error, such as a folder that cannot be read, is one.
  bool replaces(const std::string& path) const;
  /// Makes or opens the copy of a model. `whole`: heads, which are opened by path. Throws ModelError if it cannot be kept.
  void take(std::size_t model, fetch::ModelShape shape, bool whole);
  /// Null: the model is not fetched.
  std::shared_ptr<fetch::FetchedModel> find(std::size_t model) const;
  /// Whether weights stay in memory as they are in the file until the job ends, beside packed ones.
  bool fill_memory() const { return options_.mode == FetchOptions::Mode::kMemory && !models_.empty(); }
  /// Where a whole copy of heads is: a file, or a folder.
  std::string heads_path(std::size_t model) const;
  /// Removes copies that are only for this job. Files that are mapped stay readable.
  void remove_temporary() { temporary_.reset(); }

 private:
  std::string folder() const;

  const FetchOptions options_;
  const std::string host_;
  std::map<std::size_t, std::shared_ptr<fetch::FetchedModel>> models_;
  std::shared_ptr<const std::string> temporary_;  // a folder, which is removed with this; null: none
};

/// The chunks of a model's copy that a rank needs.
class NeededChunks {
 public:
  /// The arguments outlive this.
  NeededChunks(const ModelFile& model, const fetch::FetchedModel& copy) : model_(model), copy_(copy) {}
  /// Those of a stage.
  void add_stage(LayerRange layers, const Shard& shard);
  /// Those of the target that heads read: what is outside the layers and, if `mtp`, the layers of multi-token prediction.
  void add_for_heads(bool mtp);
  std::vector<std::uint64_t> take() const { return {chunks_.begin(), chunks_.end()}; }

 private:
  void add(std::span<const std::byte> bytes);

  const ModelFile& model_;
  const fetch::FetchedModel& copy_;
  std::set<std::uint64_t> chunks_;
};

}  // namespace yamata
