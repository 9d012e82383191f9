#pragma once
// Properties of another process. For a process that has ended or does not exist yet, the functions return the value for "none".
#include <sys/types.h>

#include <cstdint>
#include <string>

namespace yamata {

/// Of this process; empty if it is not set.
std::string environment_variable(const char* name);

/// 'T' while the process is stopped, 'Z' after it has ended and before its parent has waited for it, '?' if there is none.
char process_state(pid_t process);
/// The name of its program, at most 15 characters; empty if there is none.
std::string process_name(pid_t process);
/// Whether its main thread waits for a lock; false if that cannot be seen.
bool process_waits_for_lock(pid_t process);
/// Its parent process; 0 if there is none.
pid_t process_parent(pid_t process);
/// Its start time in ticks since boot, which distinguishes it from other processes with the same id. 0 if there is none.
std::uint64_t process_start(pid_t process);

/// Opens what another process writes to as this descriptor, to write there without waiting; -1 if that is impossible. In a file, its next
/// output follows what is written, as far as the kernel allows sharing.
int open_output(pid_t process, int descriptor);

/// Open MPI's launcher, by any of its names.
bool is_mpirun(const std::string& name);
/// The daemon that it starts on each other machine.
bool is_mpirun_daemon(const std::string& name);

}  // namespace yamata
