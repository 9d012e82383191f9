// Writes the small valid files that gguf_fuzz starts from into the folder given.
#include <filesystem>
#include <string>

#include "tests/gguf/support.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  int number = 0;
  for (const std::string& sample : yamata::gguf_test::samples()) {
    yamata::gguf_test::write_file(std::filesystem::path(argv[1]) / ("seed" + std::to_string(number++)), sample);
  }
}
