#include "src/fetch/have_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <thread>

#include "node/checksum.hpp"
#include "node/error.hpp"

namespace yamata::fetch {
namespace {

constexpr char kMagic[] = "YAMHAVE1";  // the last character is the version
constexpr std::size_t kMagicBytes = 8, kWord = sizeof(std::uint64_t);
constexpr off_t kUseByte = 0, kWriteByte = 1;  // of the file; each is locked for one purpose

[[noreturn]] void refuse(const std::string& path, int error) {
  throw ModelError(
      fmt::format("cannot keep fetched weights in {}: {}; name a folder on a local disk with --weights-cache, or use --fetch "
                  "memory",
                  path, std::strerror(error)));
}

/// Without blocking. False: another process holds a lock that excludes it. Throws ModelError if the file system has no locks.
bool lock(int file, off_t byte, short kind, const std::string& path) {
  struct flock range {};
  range.l_type = kind, range.l_whence = SEEK_SET, range.l_start = byte, range.l_len = 1;
  if (fcntl(file, F_OFD_SETLK, &range) == 0) return true;
  if (errno != EAGAIN && errno != EACCES) refuse(path, errno);
  return false;
}

bool is_at(int file, const std::string& path) {
  struct stat opened {
  }, named{};
  return fstat(file, &opened) == 0 && stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

class Description {
 public:
  explicit Description(const ModelShape& shape) : bytes_(kMagicBytes + kWord) {
    put(shape.fingerprint), put(shape.parts.size());
    for (const PartShape& part : shape.parts) put(part.name), put(part.bytes), put(part.header.size()), put(checksum(part.header));
  }
  std::vector<std::byte> take() {
    const std::uint64_t length = bytes_.size() - kMagicBytes - kWord;
    std::memcpy(bytes_.data(), kMagic, kMagicBytes);
    std::memcpy(bytes_.data() + kMagicBytes, &length, kWord);
    put(checksum(bytes_));
    return std::move(bytes_);
  }

 private:
  void put(const void* from, std::size_t bytes) {
    bytes_.resize(bytes_.size() + bytes);
    if (bytes > 0) std::memcpy(bytes_.data() + bytes_.size() - bytes, from, bytes);
  }
  void put(std::uint64_t number) { put(&number, kWord); }
  void put(const std::string& text) {
    put(text.size());
    put(text.data(), text.size());
  }
  std::vector<std::byte> bytes_;
};

bool write_all(int file, std::span<const std::byte> bytes, std::uint64_t at) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n)), at += static_cast<std::uint64_t>(n);
  }
  return true;
}

std::vector<std::byte> read_whole(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) return {};
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t n = pread(file, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    at += static_cast<std::size_t>(n);
  }
  bytes.resize(at);
  return bytes;
}

}  // namespace

HaveFile::HaveFile(std::string folder, const ModelShape& shape)
    : path_(std::move(folder) + "/have"), description_(Description(shape).take()), checksums_(ChunkMap(shape).count()) {
  constexpr int kTries = 1000;  // another process removes the model meanwhile, which takes milliseconds
  for (int i = 0; i < kTries; ++i) {
    if (try_open(path_)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  refuse(path_, EBUSY);
}

bool HaveFile::try_open(const std::string& path) {
  file_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file_) {
    if (errno == ENOENT) return false;  // its folder has just been removed
    refuse(path, errno);
  }
  return lock(file_.get(), kUseByte, F_RDLCK, path) && is_at(file_.get(), path);
}

bool HaveFile::try_lock() {
  if (!lock(file_.get(), kWriteByte, F_WRLCK, path_)) return false;
  if (!read()) renew();
  return true;
}

void HaveFile::unlock() { lock(file_.get(), kWriteByte, F_UNLCK, path_); }

/// False: the file is new, damaged or of another version. The fingerprint in its path covers the headers, so it is of no other model; what
/// other processes have mapped stays as it is if the chunks are written again.
bool HaveFile::read() {
  const std::vector<std::byte> bytes = read_whole(file_.get());
  if (bytes.size() != description_.size() + checksums_.size() * kWord) return false;
  if (!std::equal(description_.begin(), description_.end(), bytes.begin())) return false;
  if (!checksums_.empty()) std::memcpy(checksums_.data(), bytes.data() + description_.size(), checksums_.size() * kWord);
  futimens(file_.get(), nullptr);  // the time of the latest use
  return true;
}

void HaveFile::renew() {
  std::ranges::fill(checksums_, 0);
  const bool written = ftruncate(file_.get(), 0) == 0 && write_all(file_.get(), description_, 0) &&
                       write_all(file_.get(), std::as_bytes(std::span(checksums_)), description_.size());
  if (!written) refuse(path_, errno);
}

void HaveFile::mark(std::uint64_t chunk, std::uint64_t checksum) {
  checksums_[chunk] = checksum;
  if (!write_all(file_.get(), std::as_bytes(std::span(&checksum, 1)), description_.size() + chunk * kWord)) refuse(path_, errno);
}

std::int64_t HaveFile::changed_ns() const {
  struct stat status {};
  fstat(file_.get(), &status);
  return status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
}

namespace {

/// Reads a description; every length is checked.
class DescriptionReader {
 public:
  explicit DescriptionReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  std::uint64_t number() {
    std::uint64_t value = 0;
    if (const auto bytes = take(kWord); valid_) std::memcpy(&value, bytes.data(), kWord);
    return value;
  }
  std::string text() {
    const auto bytes = take(number());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  bool valid() const { return valid_; }
  bool at_end() const { return valid_ && rest_.empty(); }

 private:
  std::span<const std::byte> take(std::uint64_t n) {
    valid_ = valid_ && n <= rest_.size();
    if (!valid_) return {};
    const auto taken = rest_.first(static_cast<std::size_t>(n));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::span<const std::byte> rest_;
  bool valid_ = true;
};

}  // namespace

std::optional<HaveContent> read_have(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file ? parse_have(read_whole(file.get())) : std::nullopt;
}

std::optional<HaveContent> parse_have(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kLongestHeader = 1u << 30;
  if (bytes.size() < kMagicBytes + 2 * kWord || std::memcmp(bytes.data(), kMagic, kMagicBytes) != 0) return std::nullopt;
  std::uint64_t length = 0, sum = 0;
  std::memcpy(&length, bytes.data() + kMagicBytes, kWord);
  if (length > bytes.size() - kMagicBytes - 2 * kWord) return std::nullopt;
  const std::size_t end = kMagicBytes + kWord + static_cast<std::size_t>(length);
  std::memcpy(&sum, bytes.data() + end, kWord);
  if (sum != checksum(bytes.first(end))) return std::nullopt;
  DescriptionReader in(bytes.subspan(kMagicBytes + kWord, static_cast<std::size_t>(length)));
  HaveContent content;
  content.shape.fingerprint = in.number();
  for (std::uint64_t parts = in.number(); parts > 0 && in.valid(); --parts) {
    PartShape part{in.text(), in.number()};
    const std::uint64_t header = in.number();
    in.number();
    if (!in.valid() || header > kLongestHeader || header > part.bytes) return std::nullopt;
    part.header.resize(static_cast<std::size_t>(header));
    content.shape.parts.push_back(std::move(part));
  }
  try {
    validate(content.shape);
  } catch (const ClusterError&) {
    return std::nullopt;
  }
  const std::uint64_t chunks = ChunkMap(content.shape).count();
  if (!in.at_end() || (bytes.size() - end - kWord) / kWord != chunks || (bytes.size() - end) % kWord != 0) return std::nullopt;
  content.checksums.resize(static_cast<std::size_t>(chunks));
  if (chunks > 0) std::memcpy(content.checksums.data(), bytes.data() + end + kWord, content.checksums.size() * kWord);
  return content;
}

FileDescriptor try_own_have(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file || !lock(file.get(), kUseByte, F_WRLCK, path) || !is_at(file.get(), path)) return {};
  return file;
}

}  // namespace yamata::fetch
