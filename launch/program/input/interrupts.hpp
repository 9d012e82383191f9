#pragma once
// Signals with which the user ends or continues the program.
#include <atomic>

namespace yamata {

/// Set by SIGINT, SIGTERM, and SIGHUP, with which a closed terminal ends its programs.
extern std::atomic<bool> g_interrupted;
/// Set by SIGCONT.
extern std::atomic<bool> g_woken;
void catch_interrupts();
/// Whether this process was started to outlive its terminal, as by nohup.
bool hangup_is_ignored();

/// Throws Interrupted if the user has asked the program to end.
void stop_if_interrupted();

}  // namespace yamata
