#include "launch/commands/tokenize_options.hpp"

#include "launch/program/options/flag_groups.hpp"
#include "node/error.hpp"

namespace yamata {

Flags tokenize_flags() {
  auto flags = describe("tokenize", "Prints the token ids of a text, a line per token.");
  add_text(flags);
  flags.group("Output")("--ids", "Print one list [1, 2, 3]")("--no-bos", "Do not add BOS or EOS")("--no-special",
                                                                                                  "Tokenize special tokens as plain text");
  flags.group("Output")("--datastore", "Add the text to this file, from which run --datastore guesses, instead of printing it",
                        FlagKind::kFile, "FILE");
  return flags;
}

TokenizeOptions read_tokenize(const GivenFlags& r) {
  if (r.given("ids") && r.given("datastore")) throw UsageError("--ids prints the tokens, --datastore keeps them; give one of the two");
  return {.model = read_model(r),
          .text = read_text_source(r),
          .ids = r.given("ids"),
          .datastore = r.text("datastore"),
          .add_bos = !r.given("no-bos"),
          .parse_special = !r.given("no-special")};
}

}  // namespace yamata
