#include "launch/program/serving/engine_server.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace yamata {
namespace {

constexpr std::chrono::milliseconds kAlive{500}, kProgress{250};

/// An answer to a line that could not be obeyed.
JsonLine fault_of(const JsonLine& line, const std::string& message) {
  JsonLine fault{{"is", "error"}, {"message", message}};
  if (line.is_object() && line.contains("id")) fault["id"] = line["id"];
  return fault;
}

}  // namespace

EngineServer::EngineServer(Head& head, Engine& engine, const ServedModel& model, FrontEnd& front_end)
    : head_(head), engine_(engine), model_(model), front_end_(front_end), schemas_(model.tokenizer) {}

EngineServer::~EngineServer() {
  if (!broken_) cancel_all();
}

bool EngineServer::done() const { return (stopping_ && open_.empty()) || front_end_.output_lost(); }

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
  while (const std::optional<std::string> line = front_end_.take()) {
    serve(*line);
    anything = true;
  }
  if (front_end_.input_ended() && !stopping_) {
    stopping_ = anything = true;
    cancel_all();
  }
  anything |= engine_.advance();
  const auto now = Clock::now();
  for (const Open& open : open_) open.text->flush(now);
  sweep();
  tell_progress();
  return anything;
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
    front_end_.say({{"is", "alive"}, {"progress", head_.progress()}, {"runs", head_.target().outstanding()}});
  }
  if (open_.empty() || now - progress_said_ < kProgress) return;
  const std::optional<PromptProgress> progress = engine_.prompt_progress();
  if (!progress || open_.front().text->begun() || progress->computed == computed_said_) return;
  progress_said_ = now;
  computed_said_ = progress->computed;
  open_.front().text->say_progress(*progress);
}

void EngineServer::serve(const std::string& line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return;
  JsonLine read;
  try {
    read = JsonLine::parse(line);
    if (!read.is_object()) throw Refusal{"", "", "a line must be a JSON object"};
    obey(line, read);
  } catch (const Refusal& refusal) {
    if (!read.is_object() || read.value("do", JsonLine()) != "submit") return front_end_.say(fault_of(read, refusal.message));
    front_end_.say({{"is", "refused"},
                    {"id", read.value("id", JsonLine())},
                    {"code", refusal.code},
                    {"param", refusal.param},
                    {"message", refusal.message}});
  } catch (const JsonLine::exception& error) {
    front_end_.say(fault_of(read, error.what()));
  }
}

void EngineServer::obey(const std::string& raw, const JsonLine& line) {
  const std::string what = read_string(line, "do");
  if (what == "submit") return submit(raw, line);
  if (what == "cancel") return cancel(line.value("id", JsonLine()));
  if (what == "stop") {
    stopping_ = true;
  } else if (what == "tokenize") {
    const std::string text = read_string(line, "text");
    const bool special = read_flag(line, "special", true), bos = read_flag(line, "bos", false);
    front_end_.say({{"is", "tokenized"}, {"id", line.value("id", JsonLine())}, {"ids", model_.tokenizer.encode(text, bos, special)}});
  } else if (what == "detokenize") {
    StreamDecoder decoder(model_.tokenizer, read_flag(line, "special", true));
    std::string text;
    for (const TokenId id : read_ids(line, "ids", model_.tokenizer)) text += decoder.push(id);
    front_end_.say({{"is", "detokenized"}, {"id", line.value("id", JsonLine())}, {"text", text + decoder.finish()}});
  } else {
    front_end_.say(fault_of(line, "unknown: \"do\":\"" + what.substr(0, 80) + "\""));
  }
}

void EngineServer::submit(const std::string& raw, const JsonLine& line) {
  const JsonLine id = line.value("id", JsonLine());
  if (!id.is_number_integer() && !id.is_string()) throw Refusal{"bad_value", "id", "id must be a whole number or a text"};
  if (std::ranges::any_of(open_, [&](const Open& open) { return open.text->id() == id; }))
    throw Refusal{"bad_value", "id", "there is a request with this id"};
  if (stopping_ || open_.size() >= kMostOpen) throw Refusal{"full", "", stopping_ ? "the engine is ending" : "too many requests are open"};
  Submission submission = read_submission(line, model_);
  schemas_.read(raw, line, submission);
  auto served = std::make_unique<ServedText>(id, submission, model_.tokenizer, [this](const JsonLine& message) {
    if (!broken_) front_end_.say(message);
  });
  if (served->end_with_kept()) return;
  ServedText& its = *served;
  const RequestId request = engine_.submit(std::move(submission.request), its);
  its.on_stop([this, request] { engine_.stop(request); });
  open_.push_back({request, std::move(served)});
}

/// A request that has ended meanwhile has been answered.
void EngineServer::cancel(const JsonLine& id) {
  const auto found = std::ranges::find_if(open_, [&](const Open& open) { return open.text->id() == id; });
  if (found != open_.end()) engine_.cancel(found->request);
  sweep();
}

void EngineServer::cancel_all() {
  for (const Open& open : open_) engine_.cancel(open.request);
  sweep();
}

/// Removes requests that have ended.
void EngineServer::sweep() {
  if (std::erase_if(open_, [](const Open& open) { return open.text->finished(); }) > 0) computed_said_ = 0;
}

}  // namespace yamata
