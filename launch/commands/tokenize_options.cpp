#include "launch/commands/tokenize_options.hpp"

#include "launch/program/options/flag_groups.hpp"

namespace yamata {

Flags tokenize_flags() {
  auto flags = describe("tokenize", "Prints the token ids of a text, a line per token.");
  add_text(flags);
  flags.group("Output")("--ids", "Print one list [1, 2, 3]")("--no-bos", "Do not add BOS or EOS")("--no-special",
                                                                                                  "Tokenize special tokens as plain text");
  return flags;
}

TokenizeOptions read_tokenize(const GivenFlags& r) {
  return {.model = read_model(r),
          .text = read_text_source(r),
          .ids = r.given("ids"),
          .add_bos = !r.given("no-bos"),
          .parse_special = !r.given("no-special")};
}

}  // namespace yamata
