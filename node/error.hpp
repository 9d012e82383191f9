#pragma once
// The errors that users see, each with the program's exit code.
#include <stdexcept>
#include <string>

namespace yamata {

/// The exit code of the process.
enum class ExitCode : int { kDone = 0, kUsage = 1, kModel = 2, kCluster = 3, kInterrupted = 130 };

/// An error in the user's input or environment. The message says what failed, the cause and the remedy, in one line without a full stop at
/// the end; the program prints it once and ends with `code`.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(one_line(message)), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  /// Makes the text one line, since names from a hostile file may contain anything.
  static std::string one_line(std::string text) {
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
    return text;
  }
  ExitCode code_;
};

/// A flag, number or combination that cannot be used (exit code 1).
struct UsageError : Error {
  explicit UsageError(const std::string& message) : Error(ExitCode::kUsage, message) {}
};
/// A model or other file that is missing, damaged or not supported (exit code 2).
struct ModelError : Error {
  explicit ModelError(const std::string& message) : Error(ExitCode::kModel, message) {}
};
/// A rank that died, fell silent or disagrees with the others (exit code 3).
struct ClusterError : Error {
  explicit ClusterError(const std::string& message) : Error(ExitCode::kCluster, message) {}
};

}  // namespace yamata
