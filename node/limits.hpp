#pragma once
// Limits of a process, for which the system refuses it threads or memory.
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>

#include "node/error.hpp"

namespace yamata {

/// What to do if no thread or process can be started.
inline constexpr const char* kRaiseLimits = "raise the limit of processes (ulimit -u), of memory (ulimit -v) or of the container";

/// The most memory that this process may map, in bytes (ulimit -v); nothing if it is not limited.
std::optional<std::uint64_t> memory_limit();
/// The memory that it has mapped, in bytes; 0 if that cannot be read.
std::uint64_t mapped_memory();

/// How many files this process may have open (ulimit -n); nothing if that is not limited.
std::optional<std::uint64_t> file_limit();

/// The largest file, in bytes, that this process may write (ulimit -f); nothing if that is not limited.
std::optional<std::uint64_t> file_size_limit();

/// Whether the system lets this process start so many threads at once (ulimit -u, or the limit of a container).
bool can_start_threads(int count);

/// For the end of an error of memory: ", or raise ulimit -v, which allows 100 MiB". Empty if there is no such limit.
std::string or_raise_memory_limit();

/// An error of the system as one for users: what failed, the cause, and the remedy.
ModelError refused(const std::system_error& error);

}  // namespace yamata
