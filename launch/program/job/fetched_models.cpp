#include "launch/program/job/fetched_models.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "launch/program/planning/measurement_cache.hpp"
#include "node/error.hpp"
#include "src/fetch/weights_cache.hpp"
#include "src/model/weights.hpp"

namespace yamata {

namespace fs = std::filesystem;

namespace {

/// A folder in memory, which is removed with the result.
std::shared_ptr<const std::string> make_temporary() {
  std::string name = "/dev/shm/yamata-XXXXXX";
  if (!mkdtemp(name.data())) throw ModelError("cannot make a folder in /dev/shm for draft heads from rank 0; copy their file");
  return {new std::string(name), [](const std::string* folder) {
            std::error_code ignored;
            fs::remove_all(*folder, ignored);
            delete folder;
          }};
}

}  // namespace

bool FetchedModels::replaces(const std::string& path) const {
  std::error_code unseen;
  return options_.mode != FetchOptions::Mode::kNever && !fs::exists(path, unseen) && !unseen;
}

std::string FetchedModels::folder() const {
  if (!options_.folder.empty()) return fetch::weights_folder(options_.folder, host_);
  const std::string cache = measurement_folder();
  if (cache.empty())
    throw ModelError(
        "there is no home folder in which to keep weights from rank 0; name a folder with --weights-cache, or use --fetch memory");
  return fetch::weights_folder(cache + "/weights", host_);
}

void FetchedModels::take(std::size_t model, fetch::ModelShape shape, bool whole) {
  if (options_.mode != FetchOptions::Mode::kMemory) {
    models_[model] = fetch::FetchedModel::in_folder(folder(), std::move(shape));
    return;
  }
  if (!whole) {
    models_[model] = fetch::FetchedModel::in_memory(std::move(shape));
    return;
  }
  if (!temporary_) temporary_ = make_temporary();
  models_[model] = fetch::FetchedModel::in_folder(*temporary_, std::move(shape));
}

std::shared_ptr<fetch::FetchedModel> FetchedModels::find(std::size_t model) const {
  const auto found = models_.find(model);
  return found == models_.end() ? nullptr : found->second;
}

std::string FetchedModels::heads_path(std::size_t model) const {
  const fetch::FetchedModel& copy = *models_.at(model);
  std::vector<std::size_t> files;
  for (std::size_t i = 0; i < copy.shape().parts.size(); ++i) {
    if (copy.shape().parts[i].name != "config.json") files.push_back(i);
  }
  if (files.size() == 1) return copy.path(files.front());
  return fs::path(copy.path(0)).parent_path().string();
}

void NeededChunks::add(std::span<const std::byte> bytes) {
  const auto [begin, end] = copy_.chunks_of(model_.file, bytes);
  for (std::uint64_t chunk = begin; chunk < end; ++chunk) chunks_.insert(chunk);
}

void NeededChunks::add_stage(LayerRange layers, const Shard& shard) {
  for (const FoundTensor& found : find_tensors(model_.file, model_.h, layers, shard)) {
    add(found.bytes());
    if (found.scale) add({found.scale->data, found.scale->bytes});
  }
}

void NeededChunks::add_for_heads(bool mtp) {
  for (const FoundTensor& found : find_tensors(model_.file, model_.h, {0, model_.h.layers})) {
    if (found.layer < 0 && !stays_in_file(found.role)) add(found.bytes());
  }
  for (const gguf::Tensor& tensor : model_.file.tensors()) {
    if (mtp && tensor.name.starts_with(fmt::format("blk.{}.", model_.h.layers))) add({tensor.data, tensor.bytes});
  }
}

}  // namespace yamata
