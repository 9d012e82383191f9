#pragma once
// Runs the program as a user does and looks at what comes out.
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/temporary_folder.hpp"

namespace yamata::test {

using Arguments = std::vector<std::string>;

/// A command that runs; its output goes to files. Killed where it is still there in the end.
class Process {
 public:
  /// `largest_file`: bytes after which its writes to regular files fail, as on a full disk (0: no limit).
  explicit Process(const Arguments& command, std::uint64_t largest_file = 0);
  ~Process();
  /// Waits until standard output holds this many bytes. False where the command ended before.
  bool wait_for_output(std::size_t bytes);
  /// Waits for the end; the exit code, 128 + signal where a signal ended it.
  int wait();
  pid_t pid() const { return pid_; }
  /// Whether wait would return at once.
  bool ended() const;
  std::string out() const;
  std::string err() const;

 private:
  TemporaryFolder folder_;
  pid_t pid_ = -1;
  int code_ = -1;
};

struct Outcome {
  int code;
  std::string out, err;
  /// Lines of stderr that begin with "yamata:", but for warnings.
  std::vector<std::string> complaints() const;
  /// The lines that warn.
  std::vector<std::string> warnings() const;
};

/// yamata with these arguments; with ranks > 0 under mpirun.
Arguments yamata(const Arguments& arguments, int ranks = 0);
Outcome run(const Arguments& command, std::uint64_t largest_file = 0);
/// 0 where there is no such process.
pid_t parent_of(pid_t process);
/// The process that computes for a rank of an mpirun.
pid_t process_of_rank(pid_t mpirun, int rank);

/// Who started a process; 0 where it is gone.
pid_t parent_of(pid_t process);

extern const std::string kModel;
std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text);

}  // namespace yamata::test
