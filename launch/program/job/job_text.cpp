#include "launch/program/job/job_text.hpp"

#include <fmt/format.h>

#include <thread>

#include "launch/program/guard/guard.hpp"
#include "launch/program/input/input_text.hpp"
#include "launch/program/input/interrupts.hpp"
#include "mpi/cluster/announcements.hpp"
#include "node/clock.hpp"
#include "node/error.hpp"

namespace yamata {

std::string read_job_text(const std::string& path, Transport& transport, std::chrono::milliseconds timeout) {
  const auto began = Clock::now();
  const auto while_waiting = [&] {
    stop_if_interrupted();
    announce_alive(transport);
    if (Clock::now() - began > timeout / 2) may_be_cut_off();  // meanwhile this rank hears no other
  };
  std::string text = read_text(path, kTextFlag, while_waiting);
  // When mpirun is interrupted, it wakes its processes, closes their input, and ends them a second later: the text may be unfinished.
  constexpr auto kWakes = std::chrono::milliseconds(250), kEnds = std::chrono::milliseconds(2000);
  const auto closed = Clock::now();
  while (path == "-" && transport.size() > 1 && Clock::now() - closed < (g_woken ? kEnds : kWakes)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    while_waiting();
  }
  may_be_cut_off(false);
  return text;
}

std::string render_job_chat(const ChatTemplate& chat, const std::string& message, Transport& transport) {
  return render_chat(chat, message, [&] {
    stop_if_interrupted();
    announce_alive(transport);
  });
}

std::string or_larger_context(int context, const Hyperparameters& h) {
  return context < h.context ? "; raise -c or" : ", and the model was trained for no longer text;";
}

void require_prompt_fits(std::int64_t tokens, int context, const Hyperparameters& h, const char* shorter) {
  if (tokens <= context) return;
  throw UsageError(
      fmt::format("the prompt has {} tokens, the context holds {}{} {}", tokens, context, or_larger_context(context, h), shorter));
}

}  // namespace yamata
