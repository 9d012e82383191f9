#pragma once
// The output files of yamata features.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace yamata {

/// Whether it is a file of yamata features.
bool holds_features(const std::string& path);

/// Format and path of the files.
struct FeatureFormat {
  std::string path;                 ///< of the first file; the others have a number before their extension
  std::vector<std::string> layers;  ///< names: each is a tensor `hidden.NAME` [rows, dim]
  std::int64_t dim = 0;
  bool halves = true;            ///< F16, else F32
  std::uint64_t file_bytes = 0;  ///< approximate size of a file
  std::string model;             ///< name of the model that computed them, for the metadata `model`; empty: it has none
};

/// Collects texts and writes them into files; each file is complete or does not exist. Numbered files that an earlier writing left are
/// removed. Beside the hidden states, a file has `ids` [rows],
/// I32: the tokens of the rows; `texts` [n + 1], I64: the row at which each text begins, and the number of rows; and `prompts` [n], I64:
/// the number of tokens of each text that were given; the model generated the others.
class FeatureFiles {
 public:
  /// Throws UsageError if a numbered file exists that holds no features.
  explicit FeatureFiles(FeatureFormat format);

  /// Adds a text: its tokens, of which the first `prompt` were given, and `rows` [ids][layers][dim].
  void add(std::span<const std::int32_t> ids, std::size_t prompt, std::span<const float> rows);
  /// Writes the last file. Throws ModelError if a file cannot be written; so does add.
  void finish();
  std::size_t files() const { return files_; }
  std::uint64_t rows() const { return rows_; }
  std::size_t texts() const { return all_texts_; }

 private:
  std::string path_of(std::size_t number) const;
  /// Removes the numbered files of an earlier writing, the last one first, so that after a crash there is no gap before a file.
  void remove_older() const;
  void check_numbered() const;
  void write();

  const FeatureFormat format_;
  std::vector<std::int32_t> ids_;
  std::vector<std::int64_t> texts_{0}, prompts_;
  std::vector<std::vector<std::byte>> hidden_;  // per layer
  std::size_t files_ = 0, all_texts_ = 0;
  std::uint64_t rows_ = 0;
};

}  // namespace yamata
