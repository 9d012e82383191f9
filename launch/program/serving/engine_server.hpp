#pragma once
// Serves the requests of a front end: the engine's protocol (docs/serving.md).
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/program/serving/input_lines.hpp"
#include "launch/program/serving/json_line.hpp"
#include "launch/program/serving/line_reader.hpp"
#include "launch/program/serving/long_lines.hpp"
#include "launch/program/serving/output_lines.hpp"
#include "launch/program/serving/served_text.hpp"
#include "launch/program/serving/submission.hpp"
#include "mpi/engine/engine.hpp"
#include "node/clock.hpp"

namespace yamata {

/// Where lines come from and go to.
class FrontEnd {
 public:
  virtual ~FrontEnd() = default;
  /// The next line, if one has arrived.
  virtual std::optional<std::string> take() = 0;
  /// Nobody sends any more.
  virtual bool input_ended() const = 0;
  void say(const JsonLine& message) { say_text(json_text(message)); }
  /// The same for one that is text already.
  virtual void say_text(std::string message) = 0;
  /// Much of what was said is still to be read: better say nothing that can wait.
  virtual bool output_full() const { return false; }
  /// Nobody reads any more.
  virtual bool output_lost() const = 0;
};

/// A state machine between the steps of the head. Errors of a request are its own.
class EngineServer {
 public:
  /// The arguments outlive this.
  EngineServer(Head& head, Engine& engine, const ServedModel& model, FrontEnd& front_end);
  ~EngineServer();
  EngineServer(const EngineServer&) = delete;
  EngineServer& operator=(const EngineServer&) = delete;

  /// Serves until the front end has said `stop` and all is done, or is gone. If the head throws, nothing more is said of open requests, and
  /// the error is passed to the caller.
  void run();
  /// Does what is possible now; true if anything happened. Without waiting.
  bool step();
  /// Nothing is left to do, and nothing will come.
  bool done() const;

 private:
  struct Open {
    RequestId request;
    std::unique_ptr<ServedText> text;
    std::size_t computed_said = 0;  // of its prompt
  };
  /// What has come after a line that is being read, and concerns it.
  struct Preparing {
    bool refused = false;             // it came after `stop`
    std::vector<JsonLine> cancelled;  // ids of requests
  };
  static constexpr std::size_t kMostOpen = 1024;

  bool take_lines();
  void end_with_input();
  void serve(std::string line);
  void obey(ReadLine read, const Preparing& meanwhile);
  void submit(const JsonLine& id, Submission submission, const Preparing& meanwhile);
  void cancel(const JsonLine& id);
  void cancel_all();
  void sweep();
  void tell_progress();
  void rest();

  Head& head_;
  Engine& engine_;
  const ServedModel& model_;
  FrontEnd& front_end_;
  LineReader reader_;
  std::deque<Open> open_;
  std::deque<Preparing> preparing_;  // in the order of the lines
  bool stopping_ = false, broken_ = false;
  std::optional<Clock::time_point> ended_at_;  // the input, without `stop`
  Clock::time_point alive_said_{}, progress_said_{};
  LongLines long_lines_;
};

}  // namespace yamata
