#pragma once
// What the system says of another process.
#include <sys/types.h>

#include <string>

namespace yamata {

/// 'T' while the process is stopped, '?' where there is none.
char process_state(pid_t process);
/// The name of its program, 15 characters at most; empty where there is none.
std::string process_name(pid_t process);

}  // namespace yamata
