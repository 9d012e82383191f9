#pragma once
// The outcome of reading a damaged file.
#include <gtest/gtest.h>

#include <exception>
#include <string_view>

#include "node/error.hpp"

namespace yamata::test {

/// Whether `use` ends without an error. An error must be a ModelError or a UsageError of one line; otherwise the test fails.
template <class Use>
bool accepts(Use use) {
  const auto is_one_line = [](const Error& error) {
    EXPECT_EQ(std::string_view(error.what()).find_first_of("\r\n\x1b"), std::string_view::npos) << error.what();
  };
  try {
    use();
    return true;
  } catch (const ModelError& error) {
    is_one_line(error);
  } catch (const UsageError& error) {
    is_one_line(error);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an Error: " << error.what();
  }
  return false;
}

}  // namespace yamata::test
