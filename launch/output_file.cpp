#include "launch/output_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "node/error.hpp"

namespace yamata {

void write_file(const std::string& path, const std::string& text) {
  // A device or pipe cannot be replaced; everything else is.
  const bool special = path.rfind("/dev/", 0) == 0;
  const std::string temporary = special ? path : fmt::format("{}.{}.tmp", path, getpid());
  const auto fail = [&] {
    const std::string cause = std::strerror(errno);
    if (!special) std::remove(temporary.c_str());
    throw ModelError(fmt::format("cannot write {}: {}; free some space or choose another place", path, cause));
  };
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (!file) fail();
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  const int error = errno;
  const bool closed = std::fclose(file) == 0;
  if (!written) errno = error;
  if (!written || !closed || (!special && std::rename(temporary.c_str(), path.c_str()) != 0)) fail();
}

std::string read_text(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) throw UsageError(fmt::format("cannot read {}: {}; check -f", path, std::strerror(errno)));
  return text;
}

}  // namespace yamata
