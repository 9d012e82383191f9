#include "src/gguf/mapping.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "node/error.hpp"

namespace yamata::gguf {

File::Mapping::Mapping(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw ModelError(fmt::format("cannot open {}: {}; check the path", path, std::strerror(errno)));
  struct stat status {};
  const bool regular = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (regular && size > 0) mapped_ = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  const int error = errno;
  ::close(fd);
  if (!regular) throw ModelError(fmt::format("{} is not a file; check the path", path));
  if (size == 0) throw ModelError(fmt::format("{} is empty; copy or download the model again", path));
  if (mapped_ == MAP_FAILED) {
    mapped_ = nullptr;
    throw ModelError(fmt::format("cannot map {}: {}", path, std::strerror(error)));
  }
  bytes = {static_cast<const std::byte*>(mapped_), size};
  watch_.emplace(bytes, path);
}

File::Mapping::~Mapping() {
  watch_.reset();
  if (mapped_) ::munmap(mapped_, bytes.size());
}

void File::Mapping::release() const {
  if (mapped_) ::madvise(mapped_, bytes.size(), MADV_DONTNEED);
}

void File::release_pages() const {
  for (const auto& mapping : mappings_) mapping->release();
}

std::size_t File::resident_bytes() const {
  // Each mapping of /proc/self/smaps begins with "begin-end ..." and says "Rss: N kB" some lines later.
  std::ifstream smaps("/proc/self/smaps");
  std::size_t total = 0;
  bool ours = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long begin = 0, end = 0, kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      ours = std::any_of(mappings_.begin(), mappings_.end(), [&](const auto& m) {
        const auto from = reinterpret_cast<std::uintptr_t>(m->bytes.data());
        return begin >= from && begin < from + m->bytes.size();
      });
    } else if (ours && std::sscanf(line.c_str(), "Rss: %lu kB", &kib) == 1) {
      total += kib * 1024;
    }
  }
  return total;
}

}  // namespace yamata::gguf
