#include "launch/program/serving/served_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace yamata {
namespace {

/// Of a request with stop strings: one of these ends a text as the model's own end does.
const char* reason_of(FinishReason finish) {
  switch (finish) {
    case FinishReason::kLength:
      return "length";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kInterrupted:
      break;
  }
  return "cancelled";
}

std::string what_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an unknown error";
  }
}

}  // namespace

ServedText::ServedText(JsonLine id, const Submission& submission, const Tokenizer& tokenizer, Say say)
    : id_(std::move(id)),
      tokenizer_(tokenizer),
      say_(std::move(say)),
      decoder_(tokenizer, submission.special),
      stops_(submission.stops),
      prompt_(submission.request.prompt.size() - static_cast<std::size_t>(submission.request.kept)),
      kept_(static_cast<std::size_t>(submission.request.kept)),
      left_(submission.request.generate),
      seed_(submission.request.sampling.seed),
      checksum_(submission.request.checksum),
      times_(submission.times) {
  for (std::size_t i = 0; i < kept_ && !kept_ends_; ++i) {
    const std::int32_t token = submission.request.prompt[prompt_ + i];
    take(token);
    kept_ends_ = stops_.found() || tokenizer_.ends_generation(token);
  }
  kept_ends_ |= submission.complete;
  text_.clear();
  ids_.clear();
}

bool ServedText::end_with_kept() {
  if (!kept_ends_ && left_ > 0) return false;
  end(kept_ends_ ? "stop" : "length", {});
  return true;
}

/// The token that ends a text is no part of it.
void ServedText::take(std::int32_t token) {
  ++at_;
  ids_.push_back(token);
  if (!tokenizer_.ends_generation(token)) text_ += stops_.push(decoder_.push(token));
}

void ServedText::on_token(RequestId, std::int32_t token) {
  if (ids_.size() >= kMostOfALine) say_new();
  take(token);
  if (stops_.found() && end_text_) end_text_();
}

/// JSON has no infinity: a token that cannot come has the lowest number.
JsonLine ServedText::with_bytes(const TokenLogprob& token) const {
  const std::string piece = tokenizer_.piece(token.token, true);
  JsonLine bytes = JsonLine::array();
  for (const char byte : piece) bytes.push_back(static_cast<std::uint8_t>(byte));
  constexpr float kLowest = -9999;
  return {{"id", token.token}, {"logprob", token.logprob > kLowest ? token.logprob : kLowest}, {"bytes", std::move(bytes)}};
}

void ServedText::on_logprobs(RequestId, const TokenLogprob& token, const std::vector<TokenLogprob>& top) {
  JsonLine entry = with_bytes(token);
  JsonLine& others = entry["top"] = JsonLine::array();
  for (const TokenLogprob& other : top) others.push_back(with_bytes(other));
  if (logprobs_.is_null()) logprobs_ = JsonLine::array();
  logprobs_.push_back(std::move(entry));
}

void ServedText::flush(Clock::time_point now) {
  if (ids_.empty() || now - said_ < kBetween) return;
  said_ = now;
  say_new();
}

void ServedText::say_new() {
  if (ids_.empty() && text_.empty()) return;
  JsonLine line{{"is", "text"}, {"id", id_}, {"at", at_}, {"text", std::exchange(text_, {})}, {"ids", std::exchange(ids_, {})}};
  if (!logprobs_.is_null()) line["logprobs"] = std::exchange(logprobs_, nullptr);
  say_(line);
}

void ServedText::say_progress(const PromptProgress& progress) const {
  say_({{"is", "prompt"}, {"id", id_}, {"tokens", progress.tokens}, {"cached", progress.cached}, {"computed", progress.computed}});
}

void ServedText::on_finished(Completion completion) {
  // In on_token, the text is interrupted after the token; a stop string in that token counts more.
  end(stops_.found() ? "stop" : reason_of(completion.finish), completion);
}

void ServedText::end(const char* reason, const Completion& completion) {
  if (!stops_.found()) text_ += stops_.push(decoder_.finish());
  if (!stops_.found()) text_ += stops_.finish();
  say_new();
  finished_ = true;
  JsonLine line{{"is", "done"}, {"id", id_}, {"reason", reason}, {"seed", seed_}};
  line["usage"] = {{"prompt_tokens", prompt_}, {"cached_tokens", completion.cached_tokens}, {"completion_tokens", at_}};
  const Decoder::Counters& counters = completion.counters;
  line["speculation"] = {{"guessed", counters.drafted}, {"accepted", counters.accepted}, {"runs", counters.runs_started}};
  const double decode_s = completion.token_times_s.empty() ? 0 : completion.token_times_s.back();
  line["seconds"] = {{"first_token", completion.first_token_s}, {"prompt", completion.prefill_s}, {"text", decode_s}};
  if (times_) line["seconds"]["tokens"] = completion.token_times_s;
  if (checksum_) line["logits_checksum"] = fmt::format("{:016x}", completion.logits_checksum);
  say_(line);
}

void ServedText::on_failed(RequestId, std::exception_ptr error) {
  say_new();
  finished_ = true;
  say_({{"is", "error"}, {"id", id_}, {"message", what_of(error)}});
}

}  // namespace yamata
