#include "launch/standard_input.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>

namespace yamata {

std::string read_standard_input(const std::function<void()>& while_waiting) {
  constexpr int kWaitMs = 250;
  std::string text;
  std::array<char, 65536> some;
  while (true) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, kWaitMs) <= 0) {
      while_waiting();
      continue;
    }
    const ssize_t count = read(STDIN_FILENO, some.data(), some.size());
    if (count <= 0) return text;
    text.append(some.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace yamata
