#pragma once
// The pre-tokenizers of byte-level BPE vocabularies by their names in GGUF files.
#include <vector>

namespace yamata {

/// Splits the pieces of the splits before it, as HuggingFace's Split does.
struct Split {
  enum class Cut {
    kMatches,            ///< a match is a piece, and so is the text between two matches
    kMatchesByThrees,    ///< the same, and a match is cut into three characters each, counted from its end
    kInMatchesByThrees,  ///< only these cuts: also before a match whose length is a multiple of three, but not after it
  };
  const char* pattern;
  Cut cut = Cut::kMatches;
};

struct PreTokenizerRow {
  std::vector<const char*> names;
  std::vector<Split> splits;
  bool whole_pieces = false;  ///< a piece that is in the vocabulary becomes one token, whatever the merges are
  bool adds_bos = false;      ///< if the file does not say
  bool raw = false;           ///< the vocabulary has UTF-8 text with U+2581 for a space, and tokens like <0x0A> for bytes
  bool whole_lines = false;   ///< as whole_pieces, for pieces of line ends only
  bool forces_bos = false;    ///< BOS is added even if the file says otherwise
};

const std::vector<PreTokenizerRow>& pre_tokenizer_table();

}  // namespace yamata
