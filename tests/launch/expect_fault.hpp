#pragma once
// Commands that fail.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/launch/process.hpp"

namespace yamata::test {

/// Expects the command to fail with this code and one line that contains all `words`.
inline void expect_fault(const Arguments& arguments, int code, const std::vector<std::string>& words) {
  const Outcome outcome = run(yamata(arguments));
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
  for (const std::string& word : words) EXPECT_NE(outcome.complaints()[0].find(word), std::string::npos) << word << " in: " << outcome.err;
}

}  // namespace yamata::test
