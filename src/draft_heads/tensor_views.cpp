#include "src/draft_heads/tensor_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "node/cpu/kernels/kernels.hpp"
#include "node/error.hpp"
#include "node/fnv1a.hpp"
#include "node/read_number.hpp"

namespace yamata::draft_heads {
namespace {

namespace fs = std::filesystem;

std::optional<TensorType> type_of(safetensors::Type type) {
  switch (type) {
    case safetensors::Type::kF16:
      return TensorType::F16;
    case safetensors::Type::kBF16:
      return TensorType::BF16;
    case safetensors::Type::kF32:
      return TensorType::F32;
    default:
      return std::nullopt;
  }
}

bool is_gguf(const std::string& path) {
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof(magic));
  return std::memcmp(magic, "GGUF", sizeof(magic)) == 0;
}

}  // namespace

void TensorView::row(std::int64_t i, float* out) const {
  thread_local std::vector<std::byte> aligned;
  aligned.resize(row_bytes);
  std::memcpy(aligned.data(), data + static_cast<std::size_t>(i) * row_bytes, row_bytes);
  cpu::dequantize(type, aligned.data(), cols, out);
}

TensorViews TensorViews::open(const std::string& path) {
  TensorViews views;
  views.path_ = path;
  std::error_code unseen;
  if (fs::is_other(path, unseen)) throw ModelError(fmt::format("{} is not a file; check --heads", path));  // reading a pipe would block
  if (fs::is_directory(path, unseen)) {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(path, unseen)) {
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    if (files.empty()) throw ModelError(fmt::format("{}: no safetensors file in this folder; name one with --heads FILE", path));
    for (const std::string& file : files) views.files_.push_back(safetensors::File::open(file));
    views.read_config_of(path);
  } else if (is_gguf(path)) {
    views.owned_ = std::make_unique<gguf::File>(gguf::File::open(path));
    views.gguf_ = views.owned_.get();
    views.add(*views.owned_);
  } else {
    views.files_.push_back(safetensors::File::open(path));
    views.read_config_of(fs::path(path).parent_path().string());
  }
  for (const safetensors::File& file : views.files_) views.add(file);
  return views;
}

TensorViews TensorViews::of(const gguf::File& file) {
  TensorViews views;
  views.path_ = file.name();
  views.gguf_ = &file;
  views.add(file);
  return views;
}

void TensorViews::add(const safetensors::File& file) {
  for (const auto& [key, value] : file.metadata()) {
    texts_[key] = value;
    if (const auto number = read_number<double>(value)) numbers_[key] = *number;
  }
  for (const safetensors::Tensor& tensor : file.tensors()) {
    const auto type = type_of(tensor.type);
    if (!type) {
      integers_[tensor.name] = [&tensor] { return tensor.integers(); };
      continue;
    }
    if (tensor.elements() == 0)
      throw ModelError(fmt::format("{}: tensor {} is empty; copy or download it again", file.name(), tensor.name));
    if (tensors_.contains(tensor.name))
      throw ModelError(
          fmt::format("{}: tensor {} is also in another file of this folder; name one file with --heads", file.name(), tensor.name));
    const std::int64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back(), rows = tensor.elements() / cols;
    tensors_[tensor.name] = {tensor.name, *type, rows, cols, tensor.bytes.data(), tensor.bytes.size() / static_cast<std::size_t>(rows),
                             file.name()};
  }
}

void TensorViews::add(const gguf::File& file) {
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (tensor.integer_bytes > 0) {
      integers_[tensor.name] = [&tensor] { return tensor.integers(); };
      continue;
    }
    const std::size_t row_bytes = tensor.bytes / static_cast<std::size_t>(tensor.rows());
    tensors_[tensor.name] = {tensor.name, tensor.type, tensor.rows(), tensor.cols(), tensor.data, row_bytes, file.name()};
  }
}

void TensorViews::read_config_of(const std::string& folder) {
  const std::string path = (fs::path(folder) / "config.json").string();
  std::error_code unseen;
  if (!fs::exists(fs::symlink_status(path, unseen))) return;
  if (!fs::is_regular_file(path, unseen)) throw ModelError(fmt::format("{} is no file; copy or download it again", path));
  std::ifstream in(path);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object()) throw ModelError(fmt::format("{}: no JSON object; copy or download it again", path));
  const auto take = [&](const std::string& key, const nlohmann::json& value) {
    if (value.is_number()) numbers_[key] = value.get<double>();
    if (value.is_boolean()) numbers_[key] = value.get<bool>();
    if (value.is_string()) texts_[key] = value.get<std::string>();
    if (value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), [](const auto& n) { return n.is_number_integer(); }))
      lists_[key] = value.get<std::vector<std::int64_t>>();
    if (!value.is_null()) keys_.insert(key);
  };
  for (const auto& [key, value] : json.items()) take(key, value);
  for (const auto& [key, value] : json.items()) {  // some files nest values that others have at the top level
    if (value.is_object()) {
      for (const auto& [inner, number] : value.items()) take(inner, number);
    }
  }
}

const TensorView* TensorViews::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const TensorView& TensorViews::tensor(const std::string& name) const {
  const TensorView* found = find(name);
  if (!found) throw ModelError(fmt::format("{}: tensor {} is missing; is it the right file?", path_, name));
  return *found;
}

std::optional<std::vector<std::int64_t>> TensorViews::integers(const std::string& name) const {
  const auto found = integers_.find(name);
  if (found == integers_.end()) return std::nullopt;
  return found->second();
}

std::vector<std::string> TensorViews::names() const {
  std::vector<std::string> names;
  for (const auto& [name, view] : tensors_) names.push_back(name);
  return names;
}

std::optional<double> TensorViews::number(const std::string& key) const {
  if (gguf_) return gguf_->number(key);
  if (const auto found = numbers_.find(key); found != numbers_.end()) return found->second;
  if (keys_.contains(key)) throw ModelError(fmt::format("{}: {} in config.json is not a number; copy or download it again", path_, key));
  return std::nullopt;
}

std::optional<std::string> TensorViews::text(const std::string& key) const {
  if (gguf_) return gguf_->string(key);
  const auto found = texts_.find(key);
  return found == texts_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::int64_t> TensorViews::numbers(const std::string& key) const {
  if (gguf_) {
    std::vector<std::int64_t> list;
    for (const double number : gguf_->numbers(key)) list.push_back(static_cast<std::int64_t>(number));
    return list;
  }
  if (const auto found = lists_.find(key); found != lists_.end()) return found->second;
  if (keys_.contains(key))
    throw ModelError(fmt::format("{}: {} in config.json is not a list of whole numbers; copy or download it again", path_, key));
  return {};
}

std::uint64_t TensorViews::fingerprint() const {
  if (gguf_) return gguf_->fingerprint();
  Fnv1a hash;
  constexpr std::size_t kSample = 64;
  for (const auto& [name, view] : tensors_) {
    hash.add(name);
    const std::int64_t shape[] = {view.rows, view.cols, static_cast<std::int64_t>(view.type)};
    hash.add(std::as_bytes(std::span(shape)));
    const std::size_t bytes = static_cast<std::size_t>(view.rows) * view.row_bytes, part = std::min(bytes, kSample);
    for (const std::size_t at : {std::size_t{0}, (bytes - part) / 2, bytes - part}) hash.add(std::span(view.data + at, part));
  }
  return hash.value();
}

}  // namespace yamata::draft_heads
