#pragma once
// The options of yamata tokenize.
#include <string>

#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

struct TokenizeOptions {
  std::string model;
  TextSource text;
  bool ids = false;           ///< print the ids as one list
  std::string datastore;      ///< add the tokens to this file instead of printing them; empty: print
  bool add_bos = true;        ///< also EOS, if the vocabulary adds it
  bool parse_special = true;  ///< the text of a special token is parsed as that token
};

Flags tokenize_flags();
/// Throws UsageError naming the invalid flag.
TokenizeOptions read_tokenize(const GivenFlags& result);

}  // namespace yamata
