#include "tests/paths.hpp"

namespace yamata::test {

std::string source_path(const std::string& below) { return YAMATA_SOURCE_DIR + below; }

}  // namespace yamata::test
