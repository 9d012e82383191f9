#include "src/quantize/imatrix.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include "node/error.hpp"
#include "node/lost_pages.hpp"
#include "node/mapped_file.hpp"
#include "src/gguf/gguf.hpp"

namespace yamata::quantize {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw ModelError(fmt::format("{}: {}; make the importance matrix again or check --imatrix", path, what));
}

/// The older format: a count; then name, number of calls and sums of every tensor; then the number of chunks and the text's name.
class LegacyReader {
 public:
  LegacyReader(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}

  Imatrix read() {
    Imatrix result;
    const std::int32_t entries = number();
    if (entries < 1) fail(path_, "it is no importance matrix");
    for (std::int32_t i = 0; i < entries; ++i) {
      const std::string name = text();
      const std::int32_t calls = number(), count = number();
      if (count < 1) fail(path_, "a tensor has no values");
      std::vector<float>& values = result.values[name];
      values.resize(static_cast<std::size_t>(count) <= bytes_.size() / sizeof(float) ? static_cast<std::size_t>(count) : 0);
      take(static_cast<std::size_t>(count) * sizeof(float), values.data());
      if (calls > 0) {
        for (float& value : values) value /= static_cast<float>(calls);
      }
    }
    if (at_ < bytes_.size()) result.chunks = number();
    if (at_ < bytes_.size()) result.datasets.push_back(text());
    if (!result.datasets.empty() && result.datasets[0].empty()) result.datasets.clear();
    return result;
  }

 private:
  void take(std::size_t n, void* into) {
    if (n > bytes_.size() - at_) fail(path_, "it is no importance matrix, or cut");
    std::memcpy(into, bytes_.data() + at_, n);
    at_ += n;
  }
  std::int32_t number() {
    std::int32_t value = 0;
    take(sizeof value, &value);
    return value;
  }
  std::string text() {
    const std::int32_t length = number();
    if (length < 0 || static_cast<std::size_t>(length) > bytes_.size() - at_) fail(path_, "it is no importance matrix, or cut");
    std::string value(static_cast<std::size_t>(length), '\0');
    take(value.size(), value.data());
    return value;
  }

  std::string path_;
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

std::vector<float> floats(const std::string& path, const gguf::Tensor& tensor) {
  if (tensor.type != TensorType::F32) fail(path, fmt::format("{} is not F32", tensor.name));
  std::vector<float> values(tensor.bytes / sizeof(float));
  std::memcpy(values.data(), tensor.data, tensor.bytes);
  return values;
}

/// The sums of a tensor divided by the counts of its experts; most tensors have one. Experts that were never used have weight 1.
std::vector<float> means(const std::string& path, const gguf::Tensor& sums, const gguf::Tensor& counts) {
  std::vector<float> values = floats(path, sums);
  const std::vector<float> by = floats(path, counts);
  const std::size_t each = values.size() / by.size();
  for (std::size_t j = 0; j < by.size(); ++j) {
    const auto count = static_cast<float>(std::lround(by[j]));
    for (std::size_t i = j * each; i < (j + 1) * each; ++i) values[i] = count > 0 ? values[i] / count : 1.0f;
  }
  return values;
}

Imatrix read_gguf(const std::string& path) {
  constexpr std::string_view kSums = ".in_sum2";
  const gguf::File file = gguf::File::open(path);
  const auto chunks = file.integer("imatrix.chunk_count");
  const auto* datasets = file.strings("imatrix.datasets");
  if (!chunks || !datasets || !file.integer("imatrix.chunk_size")) fail(path, "it is no importance matrix: imatrix.* metadata are missing");
  Imatrix result;
  result.chunks = static_cast<int>(*chunks);
  result.datasets = *datasets;
  for (const gguf::Tensor& sums : file.tensors()) {
    if (!sums.name.ends_with(kSums)) continue;
    const std::string name = sums.name.substr(0, sums.name.size() - kSums.size());
    const gguf::Tensor* counts = file.find(name + ".counts");
    if (!counts) fail(path, fmt::format("{}.counts is missing", name));
    result.values[name] = means(path, sums, *counts);
  }
  if (result.values.empty()) fail(path, "it holds no values");
  return result;
}

Imatrix read_legacy(const std::string& path, std::span<const std::byte> bytes) {
  Imatrix result = LegacyReader(path, bytes).read();
  require_pages(bytes);
  return result;
}

}  // namespace

Imatrix Imatrix::open(const std::string& path) {
  constexpr std::string_view kMagic = "GGUF";
  const MappedFile file(path);
  const bool modern = file.bytes.size() >= kMagic.size() && std::memcmp(file.bytes.data(), kMagic.data(), kMagic.size()) == 0;
  Imatrix result = modern ? read_gguf(path) : read_legacy(path, file.bytes);
  result.path = path;
  for (const auto& [name, values] : result.values) {
    for (const float value : values) {
      if (!std::isfinite(value)) fail(path, fmt::format("{} holds a value that is no number", name));
    }
  }
  return result;
}

}  // namespace yamata::quantize
