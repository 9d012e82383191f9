#include "launch/program/serving/engine_server.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace yamata {
namespace {

constexpr std::chrono::milliseconds kAlive{500}, kProgress{250};

}  // namespace

EngineServer::EngineServer(Head& head, Engine& engine, const ServedModel& model, FrontEnd& front_end)
    : head_(head), engine_(engine), model_(model), front_end_(front_end), reader_(model), long_lines_(reader_, [this] {
        head_.transport().wake();
      }) {}

EngineServer::~EngineServer() {
  if (!broken_) cancel_all();
}

bool EngineServer::done() const { return (stopping_ && open_.empty() && preparing_.empty()) || front_end_.output_lost(); }

void EngineServer::run() {
  try {
    while (true) {
      const bool anything = step();
      if (done()) break;
      if (!anything) rest();
    }
  } catch (...) {
    broken_ = true;  // who waits for an answer must not take what there is for all of it
    throw;
  }
  cancel_all();
}

bool EngineServer::step() {
  bool anything = head_.step();
  anything |= take_lines();
  end_with_input();
  anything |= engine_.advance();
  const auto now = Clock::now();
  for (const Open& open : open_) open.text->flush(now);
  sweep();
  tell_progress();
  return anything;
}

bool EngineServer::take_lines() {
  bool anything = false;
  while (!front_end_.output_full()) {
    std::optional<ReadLine> read = long_lines_.take();
    if (!read) break;
    const Preparing meanwhile = std::move(preparing_.front());
    preparing_.pop_front();
    obey(std::move(*read), meanwhile);
    anything = true;
  }
  while (!front_end_.output_full()) {
    std::optional<std::string> line = front_end_.take();
    if (!line) break;
    serve(std::move(*line));
    anything = true;
  }
  return anything;
}

/// After the end of the input without `stop`: all requests are cancelled, and lines that take too long are dropped.
void EngineServer::end_with_input() {
  constexpr std::chrono::milliseconds kLongest{1000};
  if (!ended_at_ && front_end_.input_ended() && !stopping_) {
    ended_at_ = Clock::now();
    stopping_ = true;
    cancel_all();
  }
  if (!ended_at_ || preparing_.empty() || Clock::now() - *ended_at_ < kLongest) return;
  long_lines_.give_up();
  preparing_.clear();
}

/// While there is no request, only lines, heartbeats and the next sign of life end a sleep.
void EngineServer::rest() {
  if (!engine_.idle()) return head_.rest();
  const auto left = kAlive - (Clock::now() - alive_said_);
  constexpr std::chrono::microseconds kShortest{1000}, kLongest{100'000};
  head_.transport().sleep(std::clamp(std::chrono::duration_cast<std::chrono::microseconds>(left), kShortest, kLongest));
}

void EngineServer::tell_progress() {
  const auto now = Clock::now();
  if (now - alive_said_ >= kAlive) {
    alive_said_ = now;
    front_end_.say({{"is", "alive"},
                    {"progress", head_.progress() + long_lines_.progress()},
                    {"runs", head_.target().outstanding()},
                    {"texts", engine_.begun()},
                    {"cells", engine_.cells()},
                    {"pauses", engine_.pauses()}});
  }
  if (open_.empty() || now - progress_said_ < kProgress) return;
  for (Open& open : open_) {
    if (open.text->begun()) continue;
    const std::optional<PromptProgress> progress = engine_.prompt_progress(open.request);
    if (!progress || progress->computed == open.computed_said) continue;
    progress_said_ = now;
    open.computed_said = progress->computed;
    open.text->say_progress(*progress);
  }
}

void EngineServer::serve(std::string line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return;
  if (!LineReader::takes_long(line)) return obey(reader_.read(line), {.refused = stopping_, .cancelled = {}});
  preparing_.push_back({.refused = stopping_, .cancelled = {}});
  long_lines_.add(std::move(line));
}

void EngineServer::obey(ReadLine read, const Preparing& meanwhile) {
  switch (read.kind) {
    case ReadLine::Kind::kAnswered:
      return front_end_.say_text(std::move(read.answer));
    case ReadLine::Kind::kCancel:
      return cancel(read.id);
    case ReadLine::Kind::kStop:
      stopping_ = true;
      return;
    case ReadLine::Kind::kSubmit:
      break;
  }
  try {
    submit(read.id, std::move(*read.submission), meanwhile);
  } catch (const Refusal& refusal) {
    front_end_.say(refusal_line(read.id, refusal));
  }
}

void EngineServer::submit(const JsonLine& id, Submission submission, const Preparing& meanwhile) {
  if (std::ranges::any_of(open_, [&](const Open& open) { return open.text->id() == id; }))
    throw Refusal{"bad_value", "id", "there is a request with this id"};
  if (meanwhile.refused) throw Refusal{"full", "", "the engine is ending"};
  if (open_.size() >= kMostOpen) throw Refusal{"full", "", "too many requests are open"};
  reader_.schemas().begin(submission);
  auto served = std::make_unique<ServedText>(id, submission, model_.tokenizer, [this](const JsonLine& message) {
    if (!broken_) front_end_.say(message);
  });
  if (served->end_with_kept()) return;
  ServedText& its = *served;
  const RequestId request = engine_.submit(std::move(submission.request), its);
  its.on_stop([this, request] { engine_.stop(request); });
  open_.push_back({request, std::move(served), 0});
  if (ended_at_ || std::ranges::find(meanwhile.cancelled, id) != meanwhile.cancelled.end()) cancel(id);
}

/// A request that has ended meanwhile has been answered; one whose line is being read is cancelled then.
void EngineServer::cancel(const JsonLine& id) {
  constexpr std::size_t kMostCancelled = 4096;
  const auto found = std::ranges::find_if(open_, [&](const Open& open) { return open.text->id() == id; });
  if (found != open_.end()) engine_.cancel(found->request);
  for (Preparing& line : preparing_) {
    if (found == open_.end() && line.cancelled.size() < kMostCancelled) line.cancelled.push_back(id);
  }
  sweep();
}

void EngineServer::cancel_all() {
  for (const Open& open : open_) engine_.cancel(open.request);
  sweep();
}

/// Removes requests that have ended.
void EngineServer::sweep() {
  std::erase_if(open_, [](const Open& open) { return open.text->finished(); });
}

}  // namespace yamata
