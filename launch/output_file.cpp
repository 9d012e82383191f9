#include "launch/output_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "node/error.hpp"

namespace yamata {
namespace {

bool is_special(const std::string& path) { return path.rfind("/dev/", 0) == 0; }  // cannot be replaced
std::string temporary_of(const std::string& path) { return fmt::format("{}.{}.tmp", path, getpid()); }

[[noreturn]] void fail_to_write(const std::string& path) {
  const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  throw ModelError(fmt::format("cannot write {}: {}; {}", path, std::strerror(errno),
                               full ? "free some space or choose another place" : "check the folder and its permissions"));
}

}  // namespace

void check_writable(const std::string& path, const std::vector<std::string>& kept) {
  if (is_special(path)) return;
  for (const std::string& other : kept) {
    std::error_code ignored;
    if (path == other || std::filesystem::equivalent(path, other, ignored))
      throw UsageError(fmt::format("{} would be overwritten; write to another file", other));
  }
  if (std::filesystem::is_directory(path)) throw UsageError(fmt::format("{} is a folder; name a file to write", path));
  const std::string temporary = temporary_of(path);
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (!file) fail_to_write(path);
  std::fclose(file);
  std::remove(temporary.c_str());
}

void write_file(const std::string& path, const std::string& text) {
  const bool special = is_special(path);
  const std::string temporary = special ? path : temporary_of(path);
  const auto fail = [&] {
    const int error = errno;
    if (!special) std::remove(temporary.c_str());
    errno = error;
    fail_to_write(path);
  };
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (!file) fail();
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  const int error = errno;
  const bool closed = std::fclose(file) == 0;
  if (!written) errno = error;
  if (!written || !closed || (!special && std::rename(temporary.c_str(), path.c_str()) != 0)) fail();
}

std::string read_text(const std::string& path, const std::string& flag) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  if (std::filesystem::is_directory(path)) throw UsageError(fmt::format("{} is a folder, not a text; check {}", path, flag));
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) throw UsageError(fmt::format("cannot read {}: {}; check {}", path, std::strerror(errno), flag));
  return text;
}

}  // namespace yamata
