// pre_tokenizer_probe names | merges | write NAME FILE | encode FILE: pre-tokenizers for ask_llama_cpp.py. `names` prints the names, a line
// for each pre-tokenizer, `merges` the pairs of bytes that the vocabularies merge, best first, `write` writes a model with a made-up
// vocabulary, and `encode` reads texts as hexadecimal lines and prints their ids.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>

#include "src/tokenizer/pre_tokenizer_table.hpp"
#include "src/tokenizer/tokenizer.hpp"
#include "tests/tokenizer/made_up_vocabulary.hpp"

namespace {

std::string from_hex(const std::string& line) {
  std::string text;
  for (std::size_t i = 0; i + 1 < line.size(); i += 2) text += static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16));
  return text;
}

bool is_raw(const std::string& name) {
  for (const yamata::PreTokenizerRow& row : yamata::pre_tokenizer_table()) {
    for (const char* known : row.names) {
      if (known == name) return row.raw;
    }
  }
  return false;
}

int run(const std::vector<std::string>& words) {
  const std::string& what = words.at(0);
  if (what == "names") {
    for (const yamata::PreTokenizerRow& row : yamata::pre_tokenizer_table()) fmt::print("{}\n", fmt::join(row.names, " "));
  } else if (what == "merges") {
    for (const auto& [left, right] : yamata::tokenizer_test::merged_pairs()) fmt::print("{} {}\n", left, right);
  } else if (what == "write") {
    std::ofstream(words.at(2), std::ios::binary) << yamata::tokenizer_test::made_up_model(words.at(1), is_raw(words.at(1)));
  } else {
    const yamata::gguf::File file = yamata::gguf::File::open(words.at(1));
    const auto tokenizer = yamata::Tokenizer::load(file);
    for (std::string line; std::getline(std::cin, line);)
      fmt::print("{}\n", fmt::join(tokenizer->encode(from_hex(line), false, false), " "));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "pre_tokenizer_probe: {}\n", error.what());
    return 1;
  }
}
