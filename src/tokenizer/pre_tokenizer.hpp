#pragma once
// Splits text into pieces, across which byte-level BPE never merges.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/tokenizer/pre_tokenizer_table.hpp"
#include "src/tokenizer/progress_callback.hpp"

namespace yamata {

class PreTokenizer {
 public:
  /// The pre-tokenizer with this name in GGUF files, or null if Yamata does not support it.
  static std::unique_ptr<PreTokenizer> find(const std::string& name);
  /// The supported names, for messages.
  static std::string names();
  ~PreTokenizer();

  /// The pieces of `text` in order; together they are the whole text. Bytes that are not valid UTF-8 count as one symbol each.
  std::vector<std::string_view> split(std::string_view text) const {
    ProgressCallback progress;
    return split(text, progress);
  }
  /// The same, watched.
  std::vector<std::string_view> split(std::string_view text, ProgressCallback& progress) const;
  const PreTokenizerRow& row() const { return row_; }

 private:
  struct Pattern;
  explicit PreTokenizer(const PreTokenizerRow& row);

  const PreTokenizerRow& row_;
  std::vector<Pattern> patterns_;
};

}  // namespace yamata
