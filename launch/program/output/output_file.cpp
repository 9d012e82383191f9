#include "launch/program/output/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <regex>
#include <thread>
#include <utility>

#include "launch/program/input/interrupts.hpp"
#include "launch/program/output/standard_output.hpp"
#include "mpi/cluster/head.hpp"
#include "node/error.hpp"
#include "node/lost_pages.hpp"

namespace yamata {
namespace {

/// A device or a pipe, which cannot be replaced by a new file.
bool is_special(const std::string& path) {
  std::error_code unseen;
  const auto status = std::filesystem::status(path, unseen);
  const bool in_dev = path.starts_with("/dev/") && std::filesystem::is_directory(std::filesystem::path(path).parent_path(), unseen);
  return in_dev || (std::filesystem::exists(status) && std::filesystem::is_other(status));
}

/// The file that a symbolic link points to, which need not exist: the link stays. Links in /dev are written to as they are.
std::string followed(const std::string& path) {
  constexpr int kMaxLinks = 40;  // as many as the system follows
  if (is_special(path)) return path;
  std::error_code unseen;
  std::filesystem::path file = path;
  for (int links = 0; links < kMaxLinks && std::filesystem::is_symlink(file, unseen); ++links)
    file = file.parent_path() / std::filesystem::read_symlink(file, unseen);
  return file.string();
}

/// The path without links and "..", also of a file that does not exist.
std::filesystem::path real_path(const std::string& path) {
  std::error_code unseen;
  return std::filesystem::weakly_canonical(std::filesystem::absolute(followed(path), unseen), unseen);
}

std::string temporary_of(const std::string& path) { return fmt::format("{}.{}.tmp", path, getpid()); }

bool is_folder(const std::string& path) {
  std::error_code unseen;
  return std::filesystem::is_directory(path, unseen);
}

const char* remedy_of(int error) {
  if (error == ENOSPC || error == EDQUOT) return "free some space or choose another place";
  if (error == EFBIG) return "raise ulimit -f, or choose a file system for larger files";
  if (error == EMFILE) return "raise ulimit -n";
  if (error == ENFILE) return "raise the system's limit of open files (ulimit -n, sysctl fs.file-max)";
  return "check the folder, its permissions and the file's";
}

[[noreturn]] void fail_to_write(const std::string& path) {
  throw ModelError(fmt::format("cannot write {}: {}; {}", path, std::strerror(errno), remedy_of(errno)));
}

/// A new file replaces an older one. The older one's attributes may forbid that even if the folder allows new files.
void check_replaceable(const std::string& path) {
  if (::access(path.c_str(), W_OK) != 0 && errno != ENOENT) fail_to_write(path);
  struct statx file {};
  if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, 0, &file) != 0) return;
  errno = EPERM;
  if (file.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) fail_to_write(path);
}

/// Whether two paths name one file, which need not exist.
bool same_file(const std::string& one, const std::string& other) {
  std::error_code unseen;
  if (one == other || std::filesystem::equivalent(one, other, unseen)) return true;
  const auto first = real_path(one);
  return !first.empty() && first == real_path(other);
}

/// Whether a file is read with an input that has another name: heads in a folder, or another part of a split model.
bool is_part_of(const std::string& path, const std::string& input) {
  namespace fs = std::filesystem;
  std::error_code unseen;
  if (!fs::exists(path, unseen)) return false;
  const fs::path folder = real_path(path).parent_path();
  const std::string name = fs::path(path).filename().string(), first = fs::path(input).filename().string();
  if (is_folder(input)) return (name == "config.json" || name.ends_with(".safetensors")) && fs::equivalent(folder, input, unseen);
  static const std::regex kPart("(.*)-[0-9]{5}(-of-[0-9]{5}\\.gguf)");
  std::smatch part, of;
  return std::regex_match(first, of, kPart) && std::regex_match(name, part, kPart) && part[1] == of[1] && part[2] == of[2] &&
         folder == real_path(input).parent_path();
}

/// The path under which an unnamed file can be linked.
std::string place_of(std::FILE* file) { return fmt::format("/proc/self/fd/{}", fileno(file)); }

/// Opens a named pipe or device. Waits until a process reads the pipe; throws ModelError if none has by the deadline, Interrupted if the
/// wait is interrupted.
std::FILE* open_special(const std::string& path, PipeDeadline deadline) {
  int fd = -1;
  std::error_code unseen;
  while ((fd = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0 && errno == ENXIO && std::filesystem::is_fifo(path, unseen)) {
    if (g_interrupted) {
      print_error("yamata: {} was not written: no process read it\n", path);
      throw Interrupted{};
    }
    if (std::chrono::steady_clock::now() >= deadline)
      throw ModelError(fmt::format("{} was not written: no process read this named pipe in time; start its reader first", path));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (fd < 0) return nullptr;
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return ::fdopen(fd, "wb");
}

/// An unnamed file in the folder of `path`; null if the system does not support it.
std::FILE* open_nameless(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (fd < 0) return nullptr;
  std::FILE* file = ::fdopen(fd, "wb");
  if (file && ::access(place_of(file).c_str(), F_OK) == 0) return file;
  file ? std::fclose(file) : ::close(fd);
  return nullptr;
}

}  // namespace

void check_writable(const PlannedOutput& output, const std::vector<std::string>& kept) {
  const std::string& path = output.path;
  std::signal(SIGPIPE, SIG_IGN);  // a reader of standard output that leaves must not end the program before the file is written
  if (is_standard_output(path))
    throw UsageError(fmt::format("{} is where standard output goes, and one would overwrite the other; write to another file", path));
  if (is_special(path)) return;
  for (const std::string& other : kept) {
    if (other.empty()) continue;
    const bool same = same_file(path, other);
    if (same || is_part_of(path, other))
      throw UsageError(fmt::format("{} would be overwritten; write to another file", same ? other : path));
  }
  if (is_folder(path)) throw UsageError(fmt::format("{} is a folder; name a file to write", path));
  refuse_foreign(path, output.kind);
  check_replaceable(followed(path));
  const std::string temporary = temporary_of(followed(path));
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (!file) fail_to_write(path);
  std::fclose(file);
  std::remove(temporary.c_str());
}

NewFile::NewFile(const std::string& path, PipeDeadline deadline)
    : path_(followed(path)), temporary_(is_special(path_) ? path_ : temporary_of(path_)) {
  if (temporary_ == path_) {
    file_ = open_special(path_, deadline);
  } else {
    file_ = open_nameless(path_);
    nameless_ = file_ != nullptr;
    if (!file_) file_ = std::fopen(temporary_.c_str(), "wb");
  }
  if (!file_) fail_to_write(path_);
}

NewFile::~NewFile() {
  if (file_) std::fclose(file_);
  if (temporary_ != path_) std::remove(temporary_.c_str());
}

void NewFile::append(std::span<const std::byte> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size()) return;
  if (const int error = errno; error == EFAULT) {  // the system could not read a page of a mapped file
    require_pages(bytes);
    errno = error;
  }
  fail_to_write(path_);
}

void NewFile::finish() {
  if (std::fflush(file_) != 0) fail_to_write(path_);
  if (nameless_ && ::linkat(AT_FDCWD, place_of(file_).c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0) fail_to_write(path_);
  std::FILE* file = std::exchange(file_, nullptr);
  if (std::fclose(file) != 0) fail_to_write(path_);
  if (temporary_ != path_ && std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_to_write(path_);
}

void write_file(const std::string& path, const std::string& text, PipeDeadline deadline) {
  NewFile file(path, deadline);
  file.append(std::as_bytes(std::span(text)));
  file.finish();
}

void write_outputs(const std::vector<Output>& outputs, PipeDeadline deadline) {
  std::optional<ModelError> fault;
  bool interrupted = false;
  for (const Output& output : outputs) {
    if (output.path.empty()) continue;
    try {
      output.write ? output.write() : write_file(output.path, output.text(), deadline);
    } catch (const ModelError& e) {
      if (fault) print_error("yamata: {}\n", fault->what());
      fault = e;
    } catch (const Interrupted&) {
      interrupted = true;
    }
  }
  if (fault) throw *fault;
  if (interrupted) throw Interrupted{};
}

void check_outputs(const std::vector<PlannedOutput>& outputs, const std::vector<std::string>& kept) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    const std::string& path = output->path;
    if (path.empty()) continue;
    check_writable(*output, kept);
    const auto same = [&](const PlannedOutput& other) { return !other.path.empty() && !is_special(path) && same_file(path, other.path); };
    if (std::any_of(outputs.begin(), output, same))
      throw UsageError(fmt::format("two flags write to {}, and one would overwrite the other; name another file for one of them", path));
  }
}

}  // namespace yamata
