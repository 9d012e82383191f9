#include "src/model/ngram_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/model/hyperparameters.hpp"
#include "src/model/metadata_reader.hpp"

namespace yamata {
namespace {

/// At least `count` whole numbers, of which so many are returned.
std::vector<std::uint64_t> whole_numbers(const MetadataReader& reader, const Hyperparameters& h, const char* key, std::int64_t count) {
  reader.require({key});
  const auto& value = reader.file().metadata().at(fmt::format("{}.{}", h.family->name, key));
  std::vector<std::uint64_t> numbers;
  if (const auto* list = std::get_if<std::vector<std::uint64_t>>(&value)) numbers = *list;
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
    for (const std::int64_t number : *list) {
      if (number < 0) reader.refuse(fmt::format("{} has a negative number", key));
      numbers.push_back(static_cast<std::uint64_t>(number));
    }
  }
  if (std::ssize(numbers) < count)
    reader.refuse(fmt::format("{} has {} whole numbers, not {}; convert the model again", key, numbers.size(), count));
  numbers.resize(static_cast<std::size_t>(count));
  return numbers;
}

void read_parts(const MetadataReader& reader, Hyperparameters& h) {
  NgramShape& n = h.ngrams;
  n.table_rows = reader.file().tensor("per_layer_token_embd.weight").rows();
  n.factors = whole_numbers(reader, h, "ple.layer_multipliers", n.size);
  n.first_rows = whole_numbers(reader, h, "ple.head_offsets", n.heads);
  n.row_counts = whole_numbers(reader, h, "ple.head_vocab_sizes", n.heads);
  const auto rows = static_cast<std::uint64_t>(std::min<std::int64_t>(n.table_rows, std::numeric_limits<std::int32_t>::max()));
  for (std::size_t head = 0; head < n.first_rows.size(); ++head) {
    const std::uint64_t first = n.first_rows[head], count = n.row_counts[head];
    if (count == 0 || first >= rows || count > rows - first)
      reader.refuse(fmt::format("n-gram head {} has rows {} to {} of {}; convert the model again", head, first, first + count, rows));
  }
}

}  // namespace

void read_ngrams(const MetadataReader& reader, Hyperparameters& h) {
  constexpr std::int64_t kMostSize = 8, kMostHeads = 64, kMostDim = 1 << 14, kMostTaps = 16;
  if (!reader.has("ple.layers")) return;
  NgramShape& n = h.ngrams;
  const std::vector<double> listed = reader.file().numbers(fmt::format("{}.ple.layers", h.family->name));
  if (listed.empty()) return;
  if (!std::isfinite(listed.front())) reader.refuse("ple.layers is no whole number");
  if (listed.size() > 1) reader.refuse("n-gram embeddings of more than one layer (ple.layers) are not supported");
  n.layer = static_cast<std::int64_t>(std::clamp(listed.front(), -1.0, 1e9));
  if (n.layer < 0 || n.layer >= h.layers) reader.refuse(fmt::format("ple.layers has layer {} of {}", n.layer, h.layers));
  if (!h.layer_at(n.layer).recurrent())
    reader.refuse(fmt::format("n-gram embeddings of layer {}, which attends, are not supported", n.layer));
  n.size = reader.count("ple.ngram_size", kMostSize);
  if (n.size < 2) reader.refuse("n-grams of one token (ple.ngram_size) are not supported");
  n.heads = (n.size - 1) * reader.count("ple.heads_per_ngram", kMostHeads);
  n.head_dim = reader.count("embedding_length_per_layer_input", kMostDim);
  n.taps = reader.count("ple.conv_kernel", kMostTaps);
  if (n.taps < 2) reader.refuse("a convolution of one token (ple.conv_kernel) is not supported");
  n.end = static_cast<std::int32_t>(reader.count_or_none("ple.eos_token_id", h.vocabulary - 1));
  reader.require({"ple.eos_token_id"});
  reader.has("ple.image_token_id");  // stands for images
  h.layer.ngram_dim = n.dim();
  read_parts(reader, h);
}

}  // namespace yamata
