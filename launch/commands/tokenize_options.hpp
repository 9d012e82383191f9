#pragma once
// What yamata tokenize can be asked for.
#include <cxxopts.hpp>
#include <string>

#include "launch/options.hpp"

namespace yamata {

struct TokenizeOptions {
  std::string model;
  TextSource text;
  bool ids = false;           ///< one list
  bool add_bos = true;        ///< and EOS, where the vocabulary does
  bool parse_special = true;  ///< the text of special tokens stands for them
};

cxxopts::Options tokenize_flags();
/// Throws UsageError naming the flag that makes no sense.
TokenizeOptions read_tokenize(const cxxopts::ParseResult& result);

}  // namespace yamata
