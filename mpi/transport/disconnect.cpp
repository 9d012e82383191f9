#include "mpi/transport/disconnect.hpp"

#include <thread>

namespace yamata {
namespace {

constexpr auto kHeadFirst = std::chrono::seconds(2);  // the head's timeout ends before that of the others
constexpr auto kLongestStep = std::chrono::milliseconds(250);

}  // namespace

Disconnect::Disconnect(Transport& transport, std::chrono::milliseconds patience, std::chrono::milliseconds head_patience)
    : transport_(transport), patience_(patience), clock_(Clock::now(), kLongestStep) {
  const bool head = transport.rank() == 0;
  for (int r = 1; head && r < transport.size(); ++r) {
    others_ += !transport.forgotten(r);
    transport.send(r, Tag::kDisconnect, {});
  }
  head ? wait(State::kAwaitingAnswers, patience) : wait(State::kAwaitingHead, head_patience);
}

void Disconnect::wait(State state, std::chrono::milliseconds limit) {
  state_ = state;
  deadline_ = clock_.look(Clock::now()) + limit;
}

/// All others have answered or are lost. Tells each whether all have answered.
void Disconnect::release_all() {
  all_here_ = others_ == transport_.size() - 1;
  for (int r = 1; r < transport_.size(); ++r) transport_.send(r, Tag::kDisconnect, std::vector<std::byte>(all_here_ ? 0 : 1));
}

/// Moves to the next state if the condition of the current one is fulfilled.
bool Disconnect::advance_state() {
  if (over() || transport_.pending_sends() > 0) return false;
  switch (state_) {
    case State::kAwaitingHead:
      if (disconnects_ < 1) return false;
      transport_.send(0, Tag::kDisconnect, {});
      wait(State::kAwaitingRelease, patience_ + kHeadFirst);
      return true;
    case State::kAwaitingRelease:
      if (disconnects_ < 2) return false;
      break;
    case State::kAwaitingAnswers:
      if (disconnects_ != others_) return false;
      release_all();
      wait(State::kLeaving, patience_);
      return true;
    default:
      break;
  }
  state_ = all_here_ ? State::kTogether : State::kApart;
  return true;
}

bool Disconnect::step() {
  while (!over()) {
    if (advance_state()) continue;
    const auto message = transport_.receive();
    if (!message) break;
    if (message->tag != Tag::kDisconnect) continue;
    ++disconnects_;
    if (transport_.rank() != 0) all_here_ = message->bytes.empty();
  }
  if (!over() && clock_.look(Clock::now()) > deadline_) state_ = State::kApart;
  return over();
}

bool part(Transport& transport, std::chrono::milliseconds patience, std::chrono::milliseconds head_patience) {
  Disconnect disconnect(transport, patience, head_patience);
  while (!disconnect.step()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  return disconnect.together();
}

}  // namespace yamata
