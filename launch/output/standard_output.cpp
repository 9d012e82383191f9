#include "launch/output/standard_output.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "launch/output/launcher_output.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

struct Written {
  LauncherOutput passed_on;
  std::uint64_t bytes = 0;
};

Written& written() {
  static Written written;
  return written;
}

}  // namespace

void print_out(std::string_view text) {
  Written& before = written();  // constructed first, to know the launcher's position before the text is written
  before.bytes += std::fwrite(text.data(), 1, text.size(), stdout);
}

void print_error(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

bool is_standard_output(const std::string& path) {
  struct stat its {}, own {};
  if (stat(path.c_str(), &its) != 0 || !S_ISREG(its.st_mode)) return false;
  const bool same = fstat(STDOUT_FILENO, &own) == 0 && its.st_dev == own.st_dev && its.st_ino == own.st_ino;
  return same || written().passed_on.goes_to(path);
}

void require_standard_output() {
  const bool fails = std::fflush(stdout) != 0 || std::ferror(stdout);
  if (fails || written().passed_on.loses(written().bytes))
    throw ModelError("cannot write to standard output; is it closed, or its disk full?");
}

}  // namespace yamata
