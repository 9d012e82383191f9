#pragma once
// Texts that a command reads: from files, pipes and standard input.
#include <cstddef>
#include <functional>
#include <string>

#include "launch/program/input/interrupts.hpp"

namespace yamata {

/// A flag that names a file, and the size above which the file must be another than was meant.
struct InputFlag {
  const char* name;
  std::size_t max_mib = 16;
};
inline constexpr InputFlag kTextFlag{"-f", 1024}, kFromFlag{"--from", 256};

/// The bytes of a file or a pipe, or of standard input for "-". While a pipe or standard input has nothing to read, `while_waiting` is
/// called several times per second. Throws ModelError naming the flag if the file cannot be read or is too large.
std::string read_text(const std::string& path, const InputFlag& flag = kTextFlag,
                      const std::function<void()>& while_waiting = stop_if_interrupted);

/// Reads everything up to the end of a file or a pipe; false, with errno set, if it cannot be read (EFBIG: it is more than `most` bytes).
bool read_all(int fd, std::size_t most, std::string& text, const std::function<void()>& while_waiting);

}  // namespace yamata
