#include "node/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "node/error.hpp"
#include "node/limits.hpp"

namespace yamata {

MappedFile::MappedFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe without a writer must not block
  if (fd < 0)
    throw ModelError(
        fmt::format("cannot open {}: {}; {}", path, std::strerror(errno), errno == EMFILE ? "raise ulimit -n" : "check the path"));
  struct stat status {};
  const bool regular = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (regular && size > 0) mapped_ = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  const int error = errno;
  ::close(fd);
  if (S_ISDIR(status.st_mode)) throw ModelError(fmt::format("{} is a folder, not a file; name a file in it", path));
  if (!regular) throw ModelError(fmt::format("{} is not a file; check the path", path));
  if (size == 0) throw ModelError(fmt::format("{} is empty; copy or download it again", path));
  if (mapped_ == MAP_FAILED) {
    mapped_ = nullptr;
    const std::string remedy = error == ENOMEM ? "; free some memory" + or_raise_memory_limit() : "";
    throw ModelError(fmt::format("cannot map {}: {}{}", path, std::strerror(error), remedy));
  }
  bytes = {static_cast<const std::byte*>(mapped_), size};
  watch_.emplace(bytes, path);
}

MappedFile::~MappedFile() {
  watch_.reset();
  if (mapped_) ::munmap(mapped_, bytes.size());
}

void MappedFile::release() const {
  if (mapped_) ::madvise(mapped_, bytes.size(), MADV_DONTNEED);
}

}  // namespace yamata
