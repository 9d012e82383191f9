#pragma once
// Reads standard input while other work continues.
#include <functional>
#include <string>

namespace yamata {

/// All of standard input. While there is no input, `while_waiting` is called several times per second.
std::string read_standard_input(const std::function<void()>& while_waiting);

}  // namespace yamata
