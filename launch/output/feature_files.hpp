#pragma once
// The files of yamata features.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace yamata {

/// How rows are written, and where to.
struct FeatureFormat {
  std::string path;                 ///< of the first file; the others have a number before its ending
  std::vector<std::string> layers;  ///< names: a tensor `hidden.NAME` [rows, dim] each
  std::int64_t dim = 0;
  bool halves = true;            ///< F16, else F32
  std::uint64_t file_bytes = 0;  ///< of a file, about
};

/// Collects texts and writes them in files, each whole or not there. Beside the hidden states a file has `ids` [rows], I32, the tokens that
/// the rows belong to, `texts` [n + 1], I64: the rows where each text begins, and their number, and `prompts` [n], I64: how many tokens of
/// each text were given; the model wrote the others.
class FeatureFiles {
 public:
  explicit FeatureFiles(FeatureFormat format);

  /// A text: its tokens, the first `prompt` of which were given, and `rows` [ids][layers][dim].
  void add(std::span<const std::int32_t> ids, std::size_t prompt, std::span<const float> rows);
  /// The last file. Throws ModelError where a file cannot be written, as add does.
  void finish();
  std::size_t files() const { return files_; }
  std::uint64_t rows() const { return rows_; }

 private:
  std::string next_path() const;
  void write();

  const FeatureFormat format_;
  std::vector<std::int32_t> ids_;
  std::vector<std::int64_t> texts_{0}, prompts_;
  std::vector<std::vector<std::byte>> hidden_;  // per layer
  std::size_t files_ = 0;
  std::uint64_t rows_ = 0;
};

}  // namespace yamata
