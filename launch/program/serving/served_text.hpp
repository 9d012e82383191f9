#pragma once
// A request's text on its way from tokens to lines.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "launch/program/serving/json_line.hpp"
#include "launch/program/serving/submission.hpp"
#include "mpi/engine/request.hpp"
#include "src/tokenizer/stop_finder.hpp"
#include "src/tokenizer/tokenizer.hpp"

namespace yamata {

class ServedText final : public RequestObserver {
 public:
  using Say = std::function<void(const JsonLine& message)>;
  /// Between two lines of a text. A reader sees no difference, and the lines of a fast model would take a tenth of its processor time.
  static constexpr std::chrono::milliseconds kBetween{20};
  static constexpr std::size_t kMostOfALine = 8;  ///< tokens; a run may accept more guesses than a reader likes to see at once
  /// `id`: as the request has it. `end_text`: ends the text after the token of which this is told.
  ServedText(JsonLine id, const Submission& submission, const Tokenizer& tokenizer, Say say);
  /// How the text is ended after a token.
  void on_stop(std::function<void()> end_text) { end_text_ = std::move(end_text); }

  void on_logprobs(RequestId request, const TokenLogprob& token, const std::vector<TokenLogprob>& top) override;
  void on_token(RequestId request, std::int32_t token) override;
  void on_finished(Completion completion) override;
  void on_failed(RequestId request, std::exception_ptr error) override;

  /// Says the tokens that have come since the last time, if that is kBetween ago. The first token is said at once, the last with the end;
  /// with kMostOfALine tokens, a line does not wait for more.
  void flush(Clock::time_point now);
  /// Says how far the prompt is computed.
  void say_progress(const PromptProgress& progress) const;
  /// The tokens that are kept end the text already: says so. The request need not be computed.
  bool end_with_kept();
  /// It has ended, and was told so.
  bool finished() const { return finished_; }
  const JsonLine& id() const { return id_; }
  bool begun() const { return at_ > kept_; }

 private:
  void say_new();
  JsonLine with_bytes(const TokenLogprob& token) const;
  void take(std::int32_t token);
  void end(const char* reason, const Completion& completion);

  const JsonLine id_;
  const Tokenizer& tokenizer_;
  const Say say_;
  std::function<void()> end_text_;
  StreamDecoder decoder_;
  StopFinder stops_;
  const std::size_t prompt_, kept_;  // tokens
  const std::int32_t left_;          // tokens at most
  const std::uint64_t seed_;
  const bool checksum_, times_;
  bool kept_ends_ = false;
  std::size_t at_ = 0;
  std::string text_;               // that has not been said
  std::vector<std::int32_t> ids_;  // the same
  JsonLine logprobs_ = nullptr;    // the same
  Clock::time_point said_{};
  bool finished_ = false;
};

}  // namespace yamata
