#pragma once
// Cutting text into the pieces that byte-level BPE never merges across.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace yamata {

class PreTokenizer {
 public:
  /// The pre-tokenizer GGUF files call `name`, or null where Yamata does not know it.
  static std::unique_ptr<PreTokenizer> find(const std::string& name);
  /// The names that are known, for messages.
  static std::string names();
  ~PreTokenizer();

  /// The pieces of `text` in order; together they are the whole text. Bytes that are no UTF-8 count as one symbol each.
  std::vector<std::string_view> split(std::string_view text) const;
  /// A piece that is in the vocabulary is taken as it is, whatever the merges say.
  bool whole_pieces() const;
  /// Whether BOS is added where the file does not say.
  bool adds_bos() const;

 private:
  struct Description;
  struct Pattern;
  explicit PreTokenizer(const Description& description);
  static const std::vector<Description>& known();

  const Description& description_;
  std::vector<Pattern> patterns_;
};

}  // namespace yamata
