#pragma once
// What the system says of another process. One that has ended, or has not begun, has the answers of none.
#include <sys/types.h>

#include <cstdint>
#include <string>

namespace yamata {

/// 'T' while the process is stopped, 'Z' once it has ended and nobody has waited for it, '?' where there is none.
char process_state(pid_t process);
/// The name of its program, 15 characters at most; empty where there is none.
std::string process_name(pid_t process);
/// Who started it, or who has it now; 0 where there is none.
pid_t process_parent(pid_t process);
/// When it started, in ticks since the machine did: tells it from another that had its number or will. 0 where there is none.
std::uint64_t process_start(pid_t process);

/// Open MPI's launcher, by any of its names.
bool is_mpirun(const std::string& name);
/// The daemon that it starts on each other machine.
bool is_mpirun_daemon(const std::string& name);

}  // namespace yamata
