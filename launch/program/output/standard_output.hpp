#pragma once
// Standard output, also if a launcher forwards it.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace yamata {

/// Writes to standard output, with a buffer. Errors are reported at the end, by require_standard_output, after everything else is written.
/// A full pipe is waited for, also if it does not block.
void print_out(std::string_view text);
/// Writes what is in the buffer.
void flush_out();
template <class... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  print_out(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}

/// Writes to standard error; errors are ignored, because they could not be reported.
void print_error(std::string_view text);
template <class... Args>
void print_error(fmt::format_string<Args...> format, Args&&... args) {
  print_error(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}

/// Whether standard output goes into this file. Files that are no regular ones do not count.
bool is_standard_output(const std::string& path);

/// Throws ModelError if the output did not arrive completely. Under mpirun, a rank writes into a pipe, and mpirun silently drops what it
/// cannot write. This function detects missing output in a file behind mpirun's standard output, on rank 0's machine. It does not detect a
/// pipe whose reader has gone, nor anything of an mpirun on another machine.
void require_standard_output();

}  // namespace yamata
