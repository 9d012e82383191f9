#pragma once
// A text that comes when it comes.
#include <functional>
#include <string>

namespace yamata {

/// All of standard input. `while_waiting` is called a few times a second as long as nothing comes.
std::string read_standard_input(const std::function<void()>& while_waiting);

}  // namespace yamata
