// Writes a fuzzer's initial corpus into the given folder: small valid files for gguf_fuzz, a message of every kind for wire_fuzz.
#include <filesystem>
#include <string>

#include "tests/gguf/support.hpp"
#include "tests/mpi/protocol/messages.hpp"

int main(int argc, char** argv) {
  if (argc != 3) return 1;
  int number = 0;
  const auto write = [&](const std::string& seed) {
    yamata::gguf_test::write_file(std::filesystem::path(argv[2]) / ("seed" + std::to_string(number++)), seed);
  };
  if (std::string(argv[1]) == "gguf") {
    for (const std::string& sample : yamata::gguf_test::samples()) write(sample);
    return 0;
  }
  const auto& kinds = yamata::test::message_kinds();
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    for (const yamata::wire::Bytes& sample : kinds[kind].samples)
      write(static_cast<char>(kind) + std::string(reinterpret_cast<const char*>(sample.data()), sample.size()));
  }
}
