#pragma once
// Texts that a command reads: from files, pipes and standard input.
#include <functional>
#include <string>

#include "launch/input/interrupts.hpp"

namespace yamata {

/// The bytes of a file or a pipe, or of standard input for "-". While a pipe or standard input has nothing to read, `while_waiting` is
/// called several times per second. Throws ModelError naming `flag` if the file cannot be read.
std::string read_text(const std::string& path, const std::string& flag = "-f",
                      const std::function<void()>& while_waiting = stop_if_interrupted);

}  // namespace yamata
