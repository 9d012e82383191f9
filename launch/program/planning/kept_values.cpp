#include "launch/program/planning/kept_values.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "launch/program/planning/older_measurements.hpp"

namespace yamata {
namespace {

constexpr std::int64_t kDay = 24 * 60 * 60;
constexpr std::string_view kFirstWord = "yamata-measurements-1";
constexpr std::size_t kMaxLine = 64 << 10;

class File {
 public:
  File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_NONBLOCK | O_CLOEXEC, 0666)) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::string path_in(const std::string& folder) { return folder + "/" + kMeasurementsFile; }

/// Empty if it is none of Yamata's.
std::string read_all(const File& file) {
  struct stat status {};
  if (!file || ::fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size <= kFirstWord.size() || size > kMaxKeptBytes) return "";
  std::string content(size, '\0');
  std::size_t read = 0;
  while (read < size) {
    const ssize_t bytes = ::read(file.fd(), content.data() + read, size - read);
    if (bytes <= 0) return "";
    read += static_cast<std::size_t>(bytes);
  }
  return content.starts_with(kFirstWord) && content[kFirstWord.size()] == ' ' ? content : "";
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// The text up to a separator, which is removed from `rest` with it.
std::string_view take_until(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

/// Opens the file for its lock, with its folder if there is none.
File open_for_lock(const std::string& folder) {
  constexpr int kFlags = O_RDWR | O_CREAT;
  File file(path_in(folder), kFlags);
  if (file || errno != ENOENT) return file;
  std::error_code unseen;
  std::filesystem::create_directories(folder, unseen);
  return File(path_in(folder), kFlags);
}

/// Whether the path still names this file: another process may have replaced it.
bool is_current(const std::string& path, const struct stat& file) {
  struct stat now {};
  return ::stat(path.c_str(), &now) == 0 && now.st_dev == file.st_dev && now.st_ino == file.st_ino;
}

/// The file, which nobody replaces as long as it is open. Nothing if it cannot be written, or if another process has it for too long.
std::optional<File> lock(const std::string& folder, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    File file = open_for_lock(folder);
    struct stat status {};
    if (!file || ::fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    const bool held = ::flock(file.fd(), LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR);
    if (!held && is_current(path_in(folder), status)) return file;
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    if (held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// The lines that stay: no value of this name, none that has expired, nothing malformed, and the newest if there are too many.
std::vector<std::string_view> lines_that_stay(std::string_view lines, std::string_view name, std::size_t most_bytes, std::int64_t now_s) {
  std::vector<std::string_view> stay;
  std::size_t bytes = 0;
  while (!lines.empty()) {
    const std::string_view line = take_until(lines, '\n');
    std::string_view rest = line;
    const std::string_view its_name = take_until(rest, ' ');
    const auto until_s = whole_number(take_until(rest, ' '));
    if (its_name.empty() || its_name == name || !until_s || *until_s <= now_s || *until_s > now_s + 2 * kDay || rest.empty()) continue;
    stay.push_back(line);
    bytes += line.size() + 1;
  }
  std::size_t oldest = 0;
  for (; bytes > most_bytes; ++oldest) bytes -= stay[oldest].size() + 1;
  stay.erase(stay.begin(), stay.begin() + static_cast<std::ptrdiff_t>(oldest));
  return stay;
}

/// Whether files of older versions were removed less than a day ago.
bool recently(std::optional<std::int64_t> removed_s, std::int64_t now_s) {
  return removed_s && *removed_s > now_s - kDay && *removed_s <= now_s + kDay;
}

/// Puts the file in place in one step, or leaves nothing of it.
void replace(const std::string& path, std::string_view content) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  bool written = false;
  {
    const File file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
    if (!file) return;
    written = ::write(file.fd(), content.data(), content.size()) == static_cast<ssize_t>(content.size());
  }
  if (!written || std::rename(temporary.c_str(), path.c_str()) != 0) std::remove(temporary.c_str());
}

}  // namespace

KeptValues::KeptValues(const std::string& folder) : content_(folder.empty() ? "" : read_all(File(path_in(folder), O_RDONLY))) {}

std::string_view KeptValues::find(std::string_view name) const {
  const std::string begin = fmt::format("\n{} ", name);
  const std::size_t found = content_.find(begin);
  if (found == std::string::npos) return {};
  std::string_view rest = std::string_view(content_).substr(found + begin.size());
  std::string_view line = take_until(rest, '\n');
  take_until(line, ' ');  // when it expires: those who read the value know better
  return line;
}

void keep_value(const std::string& folder, const KeptValue& value, std::int64_t now_s, std::chrono::milliseconds patience) {
  const std::string line = fmt::format("{} {} {}\n", value.name, value.until_s, value.text);
  if (folder.empty() || line.size() > kMaxLine) return;
  const auto locked = lock(folder, patience);
  if (!locked) return;
  const std::string older = read_all(*locked);
  std::string_view lines = older, first = take_until(lines, '\n');
  take_until(first, ' ');
  auto removed_s = whole_number(first);
  if (!recently(removed_s, now_s)) {
    remove_older_measurements(folder);
    removed_s = now_s;
  }
  std::string content = fmt::format("{} {}\n", kFirstWord, *removed_s);
  for (const std::string_view stays : lines_that_stay(lines, value.name, kMaxKeptBytes - content.size() - line.size(), now_s))
    content.append(stays).push_back('\n');
  replace(path_in(folder), content + line);
}

}  // namespace yamata
