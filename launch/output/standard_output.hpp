#pragma once
// Standard output, and where a launcher passes it on.
#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace yamata {

/// Writes to standard output. A fault is known in the end, by require_standard_output: what else there is to write comes first.
void print_out(std::string_view text);
template <class... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  print_out(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}

/// Writes to standard error, where a fault cannot be told to anybody.
void print_error(std::string_view text);
template <class... Args>
void print_error(fmt::format_string<Args...> format, Args&&... args) {
  print_error(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}

/// Throws ModelError where what was written has not all arrived. Under mpirun a rank writes into a pipe and mpirun loses without a word
/// what it cannot write; seen is what a file behind mpirun's own standard output lacks, on rank 0's machine. Not seen are a pipe whose
/// reader has gone, and an mpirun on another machine.
void require_standard_output();

}  // namespace yamata
