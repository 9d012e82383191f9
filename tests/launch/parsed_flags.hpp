#pragma once
// Command lines as the program reads them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launch/program/command_line.hpp"
#include "node/error.hpp"
#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

namespace yamata::test {

inline const std::string kDraftHeads = test::source_path("/models/tales-dgf.safetensors");

inline CommandLine parse(const Arguments& arguments) {
  std::vector<const char*> argv{"yamata"};
  for (const std::string& word : arguments) argv.push_back(word.c_str());
  return parse_command_line(static_cast<int>(argv.size()), argv.data());
}

inline Arguments joined(Arguments words, const Arguments& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Expects a refusal of these words as bad usage.
inline void expect_refused(const Arguments& arguments, const std::string& words) {
  try {
    parse(arguments);
    ADD_FAILURE() << words << " was accepted for " << arguments.at(0);
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << words << " in: " << error.what();
  }
}

using Lines = std::vector<std::string>;

inline Lines idle_in_run(const Arguments& more) {
  return std::get<RunOptions>(parse(joined({"run", "-m", kModel, "-p", "x"}, more)).options).idle_flags;
}

inline void expect_lines(const Lines& lines, const Lines& beginnings) {
  ASSERT_EQ(lines.size(), beginnings.size()) << testing::PrintToString(lines);
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_TRUE(lines[i].starts_with(beginnings[i])) << lines[i];
}

}  // namespace yamata::test
