#pragma once
// Where tests find the files of the repository.
#include <string>

namespace yamata::test {

/// The path of a file of the repository; `below`: from its root, beginning with a slash.
std::string source_path(const std::string& below = "");

}  // namespace yamata::test
