// What becomes of every metadata key and tensor that llama.cpp's loader or PyPI's `gguf` names for a family (list_names.py):
// docs/results/family-names.csv, which YAMATA_RENEW_NAMES=1 writes anew.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "node/error.hpp"
#include "src/gguf/writer.hpp"
#include "src/model/known_keys.hpp"
#include "src/model/unread_tensors.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::families_test {
namespace {

constexpr std::int64_t kLayers = 3;

/// The beginning of a small model of a family, to which a key or a tensor can be added.
class Probe {
 public:
  explicit Probe(const std::string& family) {
    const auto names = variant_names();
    std::string variant = family;
    for (const char* fuller : {"-40b", "-ngrams"}) {
      if (std::ranges::find(names, family + fuller) != names.end()) variant = family + fuller;
    }
    const test::TemporaryFolder folder;
    const std::string path = folder / "model.gguf";
    write_tiny_model(variant, TensorType::F16, path);
    file_.emplace(gguf::File::open(path));
    prefix_ = family + ".";
  }

  /// read, refused (by name), or harmless. A key's value is of a kind that no reader takes.
  std::string key(const std::string& name) {
    const std::string whole = name.starts_with("tokenizer.") ? name : prefix_ + name;
    for (const KnownKey& known : tokenizer_keys()) {
      if (whole == known.key) return known.use == KnownKey::Use::kRead ? "read" : "harmless";
    }
    return outcome(whole, [&](gguf::Writer& writer) {
      static constexpr char kTexts[] = "\x09\0\0\0\x08\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0x";
      writer.set_raw(whole, std::as_bytes(std::span(kTexts, sizeof(kTexts) - 1)));
    });
  }

  /// The same. A tensor that is not in the file has three elements, as none of a model.
  std::string tensor(const std::string& name) {
    if (file_->find(name)) return "read";
    added_ = name;
    const std::string found =
        outcome(name, [&](gguf::Writer& writer) { writer.add_tensor(name, TensorType::F32, std::vector<std::int64_t>{3}); });
    added_.clear();
    return found;
  }

  std::string unchanged() {
    return outcome("", [](gguf::Writer&) {});
  }

 private:
  static bool is_kept(const gguf::Tensor& tensor) {
    return !tensor.name.starts_with("blk.") || std::stoll(tensor.name.substr(4)) < kLayers;
  }

  template <class Change>
  std::string outcome(const std::string& name, Change change) {
    std::string bytes;
    gguf::Writer writer([&](std::span<const std::byte> some) { bytes.append(reinterpret_cast<const char*>(some.data()), some.size()); });
    for (const gguf::RawPair& pair : file_->raw_metadata()) writer.set_raw(pair.key, pair.value);
    writer.set_u32(prefix_ + "block_count", kLayers);
    for (const gguf::Tensor& tensor : file_->tensors()) {
      if (is_kept(tensor)) writer.add_tensor(tensor.name, tensor.type, tensor.shape);
    }
    change(writer);
    writer.begin();
    for (const gguf::Tensor& tensor : file_->tensors()) {
      if (is_kept(tensor)) writer.data({tensor.data, tensor.bytes});
    }
    if (!added_.empty()) writer.data(std::vector<std::byte>(12));
    return read(bytes, name);
  }

  static std::string read(const std::string& bytes, const std::string& name) {
    try {
      const gguf::File file = gguf::File::parse(std::as_bytes(std::span(bytes)), "model.gguf");
      require_all_read(file, Hyperparameters::read(file));
    } catch (const ModelError& error) {
      const std::string_view message = error.what();
      const bool named = message.find(name + " is not supported") != std::string_view::npos;
      EXPECT_TRUE(named || message.find("another text") == std::string_view::npos) << message;
      return named ? "refused" : "read";
    }
    return "harmless";
  }

  std::optional<gguf::File> file_;
  std::string prefix_, added_;
};

/// Rows of the table: a name, and what becomes of it in each family; empty: the family does not have it.
using Table = std::map<std::pair<std::string, std::string>, std::map<std::string, std::string>>;

std::string to_csv(const Table& table) {
  std::string text = "kind,name";
  for (const Family& family : families()) text += fmt::format(",{}", family.name);
  for (const auto& [row, cells] : table) {
    text += fmt::format("\n{},{}", row.first, row.second);
    for (const Family& family : families()) text += "," + (cells.contains(family.name) ? cells.at(family.name) : "");
  }
  return text + "\n";
}

TEST(KnownNames, EveryKeyAndTensor_isReadHarmlessOrRefusedByName) {
  std::vector<std::string> keys;
  std::map<std::string, std::vector<std::string>> tensors;
  std::ifstream names(test::source_path("/tests/families/known_names.txt"));
  for (std::string line; std::getline(names, line);) {
    std::istringstream words(line);
    std::string kind, family, name;
    words >> kind >> family >> name;
    if (kind == "key") keys.push_back(family);
    if (kind == "tensor") tensors[family].push_back(name);
  }
  ASSERT_GT(keys.size(), 100u);
  ASSERT_EQ(tensors.size(), families().size());
  Table table;
  for (const Family& family : families()) {
    Probe probe(family.name);
    ASSERT_EQ(probe.unchanged(), "harmless") << family.name;
    for (const std::string& key : keys) table[{"key", key}][family.name] = probe.key(key);
    for (const std::string& name : tensors.at(family.name)) {
      for (const char* ending : {".weight", ".bias", ".scale", ".input_scale"})
        table[{"tensor", name + ending}][family.name] = probe.tensor(name + ending);
    }
  }
  const std::string path = test::source_path("/docs/results/family-names.csv"), found = to_csv(table);
  if (std::getenv("YAMATA_RENEW_NAMES")) std::ofstream(path) << found;
  std::ifstream kept(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(kept), {}), found) << "YAMATA_RENEW_NAMES=1 writes the file anew";
}

/// They are in no list of gguf's.
TEST(KnownNames, KeysThatOllamaWrites_areHarmless) {
  Probe probe("llama");
  for (const char* what : {"unknown", "padding", "seperator", "cls", "mask"})
    EXPECT_EQ(probe.key(fmt::format("tokenizer.ggml.add_{}_token", what)), "harmless");
}

}  // namespace
}  // namespace yamata::families_test
