#pragma once
// Runs the program like a user and examines its output.
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/temporary_folder.hpp"

namespace yamata::test {

using Arguments = std::vector<std::string>;

/// A running command; its output goes to files. It is killed if it still runs at the end of this object.
class Process {
 public:
  /// `largest_file`: bytes after which its writes to regular files fail, as on a full disk (0: no limit).
  explicit Process(const Arguments& command, std::uint64_t largest_file = 0);
  ~Process();
  /// Waits until standard output has this many bytes. False if the command ended before.
  bool wait_for_output(std::size_t bytes);
  /// Waits for the end; returns the exit code, or 128 + signal if a signal ended it.
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
  /// Lines of stderr that begin with "yamata:", without warnings.
  std::vector<std::string> complaints() const;
  /// The warnings.
  std::vector<std::string> warnings() const;
};

/// How many times as long as others the program under test may take: sanitized ones are slow (YAMATA_PATIENCE).
int patience();

/// yamata with these arguments; with ranks > 0 under mpirun.
Arguments yamata(const Arguments& arguments, int ranks = 0);
Outcome run(const Arguments& command, std::uint64_t largest_file = 0);
/// The parent of a process; 0 if there is no such process.
pid_t parent_of(pid_t process);
/// The process of a rank of this mpirun.
pid_t process_of_rank(pid_t mpirun, int rank);

/// The demonstration pair, and the program under test.
extern const std::string kModel, kDraft, kProgram;
inline constexpr const char* kPrompt = "Once upon a time there was";
std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text);

}  // namespace yamata::test
