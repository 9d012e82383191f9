#include "launch/program/job/shared_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "node/error.hpp"

namespace yamata {

namespace fs = std::filesystem;

const SharedWeights::Files& SharedWeights::find(std::int32_t model) {
  const auto known = files_.find(model);
  if (known != files_.end()) return known->second;
  const auto number = static_cast<std::size_t>(model);
  if (model < 0 || number >= models_.fingerprints().size() || !models_.has(number))
    throw ClusterError("a rank asks for a model that this job has not; give all ranks the same flags");
  Files files;
  files.shape.fingerprint = models_.fingerprints()[number];
  files.shape.name = fs::path(models_.path(number)).filename().string();
  if (const ModelFile* file = models_.find(number))
    add_model(files, file->file);
  else
    add_heads(files, models_.path(number));
  return files_.emplace(model, std::move(files)).first->second;
}

void SharedWeights::add_model(Files& files, const gguf::File& file) const {
  for (const gguf::File::Part& part : file.parts()) {
    const auto header = part.bytes.first(part.header_bytes);
    files.bytes.push_back(part.bytes);
    files.shape.parts.push_back({fmt::format("part-{}.gguf", files.bytes.size()), part.bytes.size(), {header.begin(), header.end()}});
  }
}

/// A file with the configuration beside it, or those of a folder.
void SharedWeights::add_heads(Files& files, const std::string& path) const {
  std::error_code unseen;
  std::vector<fs::path> all;
  const bool folder = fs::is_directory(path, unseen);
  for (const auto& entry : fs::directory_iterator(folder ? fs::path(path) : fs::path(path).parent_path() / ".", unseen)) {
    const bool wanted = folder && entry.path().extension() == ".safetensors";
    if (wanted || entry.path().filename() == "config.json") all.push_back(entry.path());
  }
  if (!folder) all.emplace_back(path);
  std::ranges::sort(all);
  for (const fs::path& file : all) {
    files.heads.push_back(std::make_unique<MappedFile>(file.string()));
    files.bytes.push_back(files.heads.back()->bytes);
    files.shape.parts.push_back({file.filename().string(), files.bytes.back().size()});
  }
}

}  // namespace yamata
