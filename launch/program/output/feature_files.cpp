#include "launch/program/output/feature_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "launch/program/output/output_file.hpp"
#include "node/error.hpp"
#include "node/read_number.hpp"
#include "src/quantize/row.hpp"
#include "src/safetensors/safetensors.hpp"
#include "src/safetensors/writer.hpp"

namespace yamata {

bool holds_features(const std::string& path) {
  try {
    const auto file = safetensors::File::open(path);
    const bool hidden = std::ranges::any_of(file.tensors(), [](const auto& tensor) { return tensor.name.starts_with("hidden."); });
    return hidden && file.find("ids") && file.find("texts") && file.find("prompts");
  } catch (const Error&) {
    return false;
  }
}

FeatureFiles::FeatureFiles(FeatureFormat format) : format_(std::move(format)), hidden_(format_.layers.size()) { check_numbered(); }

/// Of the files in the folder, those whose names this writing may need.
void FeatureFiles::check_numbered() const {
  const std::filesystem::path first(format_.path);
  const std::string begin = first.stem().string() + "-", end = first.extension().string();
  const std::filesystem::path folder = first.has_parent_path() ? first.parent_path() : ".";
  std::error_code unseen;
  for (const auto& entry : std::filesystem::directory_iterator(folder, unseen)) {
    const std::string name = entry.path().filename().string();
    if (name.size() <= begin.size() + end.size() || !name.starts_with(begin) || !name.ends_with(end)) continue;
    const auto number = read_number<std::size_t>(name.substr(begin.size(), name.size() - begin.size() - end.size()));
    if (!number || *number < 2 || std::filesystem::path(path_of(*number)).filename() != name || holds_features(entry.path())) continue;
    throw UsageError(
        fmt::format("{} would be overwritten, but holds no features; move it, or write to another file", entry.path().string()));
  }
}

void FeatureFiles::add(std::span<const std::int32_t> ids, std::size_t prompt, std::span<const float> rows) {
  const auto dim = static_cast<std::size_t>(format_.dim);
  const TensorType type = format_.halves ? TensorType::F16 : TensorType::F32;
  const std::size_t row_bytes = dim * (format_.halves ? 2 : 4);
  for (std::size_t row = 0; row < ids.size(); ++row) {
    for (std::size_t layer = 0; layer < hidden_.size(); ++layer) {
      std::vector<std::byte>& to = hidden_[layer];
      to.resize(to.size() + row_bytes);
      try {
        quantize::quantize_row(type, rows.subspan((row * hidden_.size() + layer) * dim, dim), nullptr, to.data() + to.size() - row_bytes);
      } catch (const quantize::OutOfRange&) {
        throw UsageError(fmt::format("hidden states of layer {} do not fit f16; write them with --type f32", format_.layers[layer]));
      }
    }
  }
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  texts_.push_back(static_cast<std::int64_t>(ids_.size()));
  prompts_.push_back(static_cast<std::int64_t>(prompt));
  rows_ += ids.size();
  ++all_texts_;
  if (hidden_.size() * hidden_.front().size() >= format_.file_bytes) write();
}

std::string FeatureFiles::path_of(std::size_t number) const {
  if (number == 1) return format_.path;
  const std::size_t slash = format_.path.find_last_of('/');
  const std::size_t dot = format_.path.find_last_of('.');
  const bool ending = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  const std::size_t at = ending ? dot : format_.path.size();
  return fmt::format("{}-{:05}{}", format_.path.substr(0, at), number, format_.path.substr(at));
}

void FeatureFiles::remove_older() const {
  std::size_t count = 1;
  while (std::filesystem::exists(path_of(count + 1))) ++count;
  for (; count > 1; --count) {
    std::error_code error;
    std::filesystem::remove(path_of(count), error);
    if (error) throw ModelError(fmt::format("cannot remove {}, which was written earlier: {}; delete it", path_of(count), error.message()));
  }
}

void FeatureFiles::write() {
  const auto rows = static_cast<std::int64_t>(ids_.size());
  const auto texts = static_cast<std::int64_t>(prompts_.size());
  std::vector<safetensors::Entry> entries{{"ids", "I32", {rows}, std::as_bytes(std::span(ids_))},
                                          {"texts", "I64", {texts + 1}, std::as_bytes(std::span(texts_))},
                                          {"prompts", "I64", {texts}, std::as_bytes(std::span(prompts_))}};
  for (std::size_t layer = 0; layer < hidden_.size(); ++layer)
    entries.push_back({"hidden." + format_.layers[layer], format_.halves ? "F16" : "F32", {rows, format_.dim}, hidden_[layer]});
  NewFile file(path_of(files_ + 1));
  std::map<std::string, std::string> metadata;
  if (!format_.model.empty()) metadata["model"] = format_.model;
  safetensors::write(entries, metadata, [&](std::span<const std::byte> bytes) { file.append(bytes); });
  if (files_ == 0) remove_older();
  file.finish();
  ++files_;
  ids_.clear();
  texts_ = {0};
  prompts_.clear();
  for (auto& layer : hidden_) layer.clear();
}

void FeatureFiles::finish() {
  if (!ids_.empty()) write();
}

}  // namespace yamata
