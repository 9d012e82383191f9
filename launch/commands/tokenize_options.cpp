#include "launch/commands/tokenize_options.hpp"

#include "launch/program/options/flag_groups.hpp"

namespace yamata {

cxxopts::Options tokenize_flags() {
  auto flags = describe("tokenize", "Prints the token ids of a text, a line per token.");
  add_text(flags);
  flags.add_options("Output")("ids", "Print one list [1, 2, 3]")("no-bos", "Do not add BOS or EOS")(
      "no-special", "Tokenize special tokens as plain text");
  return flags;
}

TokenizeOptions read_tokenize(const cxxopts::ParseResult& r) {
  return {.model = read_model(r),
          .text = read_text_source(r),
          .ids = given(r, "ids"),
          .add_bos = !given(r, "no-bos"),
          .parse_special = !given(r, "no-special")};
}

}  // namespace yamata
