#pragma once
// Signals with which the user ends or continues the program.
#include <atomic>

namespace yamata {

/// Set by SIGINT and SIGTERM.
extern std::atomic<bool> g_interrupted;
/// Set by SIGCONT.
extern std::atomic<bool> g_woken;
void catch_interrupts();

/// Throws Interrupted if the user has asked the program to end.
void stop_if_interrupted();

}  // namespace yamata
