#include "launch/program/input/interrupts.hpp"

#include <csignal>

#include "mpi/cluster/head.hpp"

namespace yamata {

std::atomic<bool> g_interrupted{false}, g_woken{false};

bool hangup_is_ignored() {
  struct sigaction action {};
  return sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { g_interrupted = true; };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  if (!hangup_is_ignored()) sigaction(SIGHUP, &action, nullptr);
  action.sa_handler = [](int) { g_woken = true; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGCONT, &action, nullptr);
}

void stop_if_interrupted() {
  if (g_interrupted) throw Interrupted{};
}

}  // namespace yamata
