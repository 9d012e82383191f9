#include "mpi/engine/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "node/error.hpp"
#include "node/fnv1a.hpp"
#include "src/sampling/best_logits.hpp"

namespace yamata {
namespace {

/// A hash over the bits of logits rows.
class Checksum {
 public:
  void add(std::span<const float> row) {
    for (const float value : row) hash_.add(std::bit_cast<std::uint32_t>(value));
  }
  std::uint64_t value() const { return hash_.value(); }

 private:
  Fnv1a hash_;
};

/// How many of a row's highest logits sampling reads; 0: all.
std::size_t sampled_logits(const Request& request) {
  const auto answer = static_cast<std::size_t>(std::max(0, request.kept)) + static_cast<std::size_t>(std::max(0, request.generate));
  return logits_read(request.sampling, request.banned.size(), answer);
}

/// How many of a row's highest logits are requested; 0: all.
std::size_t logits_of(const DecodeOptions& options, const Request& request) {
  if (request.checksum || options.typical || request.grammar) return 0;
  const std::size_t read = sampled_logits(request);
  return read == 0 ? 0 : std::max(read, static_cast<std::size_t>(request.logprobs.value_or(0)));
}

/// The state of the request's grammar behind the kept tokens.
TokenGrammar::State state_behind_kept(const Request& request) {
  if (!request.grammar) return TokenGrammar::kForbidden;
  return request.grammar->after_all(std::span(request.prompt).last(static_cast<std::size_t>(request.kept)));
}

DecodeOptions options_of(DecodeOptions options, RequestId id, const Request& request) {
  options.request = id;
  options.generate = request.generate;
  options.logits = logits_of(options, request);
  options.sums = request.logprobs.has_value();
  options.grammar = request.grammar;
  options.kept = request.kept;
  if (options.typical) options.typical->banned = request.banned;
  return options;
}

/// The error of a request, which ends it alone.
struct RequestFailed {
  std::exception_ptr error;
};

/// Calls `part` of a request.
template <class Part>
auto attempt(Part part) {
  try {
    return part();
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    throw RequestFailed{std::current_exception()};
  }
}

/// The cache of texts that have ended, in sequences behind those of the current text.
PrefixCache make_cache(Head& head, const DecodeOptions& options) {
  const SequenceRange sequences{options.sequences.end, options.sequences.end + options.kept_texts};
  if (head.plan().pipelines.empty()) return {head.target(), sequences, PrefixCache::Kind::kCells};
  const wire::PipelinePlan& plan = head.plan().pipelines.front();
  if (plan.kept_states > 0) return {head.target(), {plan.sequences - plan.kept_states, plan.sequences}, PrefixCache::Kind::kStates};
  return {head.target(), sequences, plan.window_cells > 0 ? PrefixCache::Kind::kWindows : PrefixCache::Kind::kCells};
}

}  // namespace

/// The text that is being generated.
class Engine::Text {
 public:
  Text(Engine& engine, Waiting waiting)
      : request_(std::move(waiting.request)),
        submitted_(waiting.submitted),
        observer_(*waiting.observer),
        drafters_(engine.sources_.drafters()),
        context_(engine.options_.context),
        batch_(engine.options_.batch),
        text_sequence_(engine.options_.sequences.begin),
        sampler_(request_.sampling, request_.prompt.size() - static_cast<std::size_t>(request_.kept)),
        grammar_state_(state_behind_kept(request_)),
        decoder_(
            engine.head_.target(), engine.sources_, options_of(engine.options_, waiting.id, request_),
            [this](std::vector<float>& logits, std::span<const std::int32_t> history) {
              return attempt([&] { return choose(logits, history); });
            },
            [this](std::int32_t token) { return attempt([&] { return take(token); }); }) {
    completion_.request = waiting.id;
    sampler_.ban(request_.banned);
  }

  void begin(PrefixCache& cache) {
    began_ = Clock::now();
    const CachedBeginning cached = cache.find(request_.prompt, request_.reuse && !decoder_.reads_features());
    if (cache.keeps_states()) keep_states(cache, static_cast<std::size_t>(cached.tokens));
    decoder_.begin(request_.prompt, cached);
  }
  RequestId id() const { return completion_.request; }
  Decoder& decoder() { return decoder_; }
  RequestObserver& observer() { return observer_; }

  /// Whether its observer is being called with a token.
  bool telling() const { return telling_; }
  /// Ends the text after the token with which its observer is being called.
  void interrupt() { interrupted_ = true; }
  void stop() { stopped_ = true; }
  PromptProgress progress() const {
    return {.tokens = request_.prompt.size(), .cached = decoder_.reused(), .computed = decoder_.prompt_computed()};
  }

  /// Why the text has ended, after the decoder has finished.
  FinishReason reason() const {
    if (interrupted_) return FinishReason::kInterrupted;
    if (stopped_) return FinishReason::kStop;
    const std::size_t generated = completion_.token_ids.size();
    const bool full = request_.prompt.size() + generated > static_cast<std::size_t>(context_);
    return full && static_cast<std::int32_t>(generated) < request_.generate ? FinishReason::kContext : FinishReason::kLength;
  }

  Completion complete(FinishReason reason) {
    completion_.finish = reason;
    completion_.counters = decoder_.counters();
    completion_.cached_tokens = decoder_.reused();
    for (const DraftLink* drafter : drafters_) completion_.feature_bytes += drafter->feature_bytes();
    if (!drafters_.empty()) completion_.first_choice_rate = drafters_.front()->calibration().first_choice_rate();
    return std::move(completion_);
  }

 private:
  /// States after the prompt, before its last run, and now and then before that. `from`: tokens whose state is there.
  void keep_states(PrefixCache& cache, std::size_t from) {
    decoder_.on_prompt_sent = [this, &cache, from](std::size_t sent) mutable {
      const std::size_t all = request_.prompt.size();
      const auto most = static_cast<std::size_t>(batch_);
      if (sent < all && sent - from < PrefixCache::kStateInterval && all - sent > most) return;
      cache.keep_state(std::span(request_.prompt).first(sent), text_sequence_, sent == all);
      from = sent;
    };
  }

  std::int32_t choose(std::vector<float>& logits, std::span<const std::int32_t> history) {
    if (request_.checksum) {
      checksum_.add(logits);
      completion_.logits_checksum = checksum_.value();
    }
    const auto began = Clock::now();
    const std::vector<TokenLogprob> top = note_probabilities(logits);
    if (request_.grammar) request_.grammar->restrict(grammar_state_, logits, sampled_logits(request_));
    const std::int32_t token = sampler_.sample(logits, history, static_cast<std::int64_t>(history.size()));
    completion_.sample_s += Clock::seconds_since(began);
    if (request_.logprobs) tell_probability(token, top);
    return token;
  }

  /// Keeps the log-probabilities of a row's tokens before sampling changes the row; returns the most probable ones.
  std::vector<TokenLogprob> note_probabilities(std::span<const float> logits) {
    if (!request_.logprobs) return {};
    logits_.assign(logits.begin(), logits.end());
    log_sum_ = decoder_.log_sum() ? *decoder_.log_sum() : log_sum_exp(logits);
    std::vector<TokenLogprob> top;
    const auto count = std::min(static_cast<std::size_t>(*request_.logprobs), logits.size());
    if (count == 0) return top;
    const BestLogits best = best_logits(logits, logits.size(), count);
    for (std::size_t i = 0; i < count && best.tokens[i] >= 0; ++i) top.push_back({best.tokens[i], best.values[i] - log_sum_});
    return top;
  }

  void tell_probability(std::int32_t token, const std::vector<TokenLogprob>& top) {
    observer_.on_logprobs(id(), {token, std::min(0.0f, logits_[static_cast<std::size_t>(token)] - log_sum_)}, top);
  }

  bool take(std::int32_t token) {
    if (completion_.token_ids.empty()) {
      completion_.prefill_s = Clock::seconds_since(began_);
      completion_.first_token_s = Clock::seconds_since(submitted_);
      prefilled_ = Clock::now();
    }
    completion_.token_times_s.push_back(completion_.token_ids.empty() ? 0.0 : Clock::seconds_since(prefilled_));
    completion_.token_ids.push_back(token);
    if (!drafters_.empty()) {
      const auto choices = drafters_.front()->calibration().last_choices();
      completion_.choices.emplace_back(choices.begin(), choices.end());
    }
    stopped_ = std::find(request_.ends.begin(), request_.ends.end(), token) != request_.ends.end();
    if (request_.grammar) {
      grammar_state_ = request_.grammar->after(grammar_state_, token);
      stopped_ |= request_.grammar->complete(grammar_state_);
    }
    telling_ = true;
    observer_.on_token(id(), token);
    telling_ = false;
    return !stopped_ && !interrupted_;
  }

  const Request request_;
  const Clock::time_point submitted_;
  RequestObserver& observer_;
  const std::vector<DraftLink*>& drafters_;
  const std::int32_t context_, batch_, text_sequence_;
  Sampler sampler_;
  TokenGrammar::State grammar_state_;  // at the end of the text
  Checksum checksum_;
  std::vector<float> logits_;  // of the token that is being sampled; for log-probabilities
  float log_sum_ = 0;
  Clock::time_point began_, prefilled_;
  bool stopped_ = false;  // by a token that ends the text
  bool telling_ = false, interrupted_ = false;
  Completion completion_;
  Decoder decoder_;
};

Engine::Engine(Head& head, GuessSources sources, const DecodeOptions& options)
    : head_(head), sources_(std::move(sources)), options_(options), cache_(make_cache(head, options)) {
  head_.listen(this);
}

Engine::~Engine() { head_.listen(nullptr); }

RequestId Engine::submit(Request request, RequestObserver& observer) {
  if (request.prompt.empty()) throw UsageError("the prompt is empty");
  if (request.prompt.size() > static_cast<std::size_t>(options_.context))
    throw UsageError(fmt::format("the prompt has {} tokens, the context holds {}", request.prompt.size(), options_.context));
  waiting_.push_back({++submitted_, std::move(request), &observer, Clock::now()});
  return submitted_;
}

void Engine::begin_next() {
  Waiting next = std::move(waiting_.front());
  waiting_.pop_front();
  current_ = std::make_unique<Text>(*this, std::move(next));
  current_->begin(cache_);
}

bool Engine::advance() {
  if (!current_) {
    while (head_.target().take_result()) {  // results of runs of an earlier text
    }
    if (waiting_.empty()) return false;
    begin_next();
  }
  cache_.make_room(current_->decoder().cells_needed());
  try {
    const bool anything = current_->decoder().advance();
    if (!current_->decoder().finished()) return anything;
  } catch (const RequestFailed& failed) {
    fail(failed.error);
    return true;
  }
  finish(current_->reason());
  return true;
}

void Engine::fail(const std::exception_ptr& error) {
  const std::unique_ptr<Text> text = release(false);
  text->observer().on_failed(text->id(), error);
}

/// Ends the current text; what is computed of it stays in the cache. `whole`: its decoder has finished.
std::unique_ptr<Engine::Text> Engine::release(bool whole) {
  current_->decoder().leave();
  if (cache_.keeps_states()) keep_states(whole);
  cache_.keep(current_->decoder().text(), current_->decoder().computed(), options_.sequences.begin, whole);
  return std::move(current_);
}

/// Of layers with states.
void Engine::keep_states(bool whole) {
  Decoder& decoder = current_->decoder();
  cache_.forget_beyond(decoder.text(), decoder.computed());
  if (whole && decoder.compute_end()) cache_.keep_state(decoder.text(), options_.sequences.begin, true);
}

/// The observer may submit the next request.
void Engine::finish(FinishReason reason) {
  const std::unique_ptr<Text> text = release(current_->decoder().finished());
  text->observer().on_finished(text->complete(reason));
}

void Engine::cancel(RequestId request) {
  if (current_ && current_->id() == request) {
    if (current_->telling()) return current_->interrupt();
    return finish(FinishReason::kInterrupted);
  }
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) { return waiting.id == request; });
  if (found == waiting_.end()) return;
  RequestObserver& observer = *found->observer;
  waiting_.erase(found);
  Completion completion;
  completion.request = request;
  completion.finish = FinishReason::kInterrupted;
  observer.on_finished(std::move(completion));
}

void Engine::stop(RequestId request) {
  if (current_ && current_->id() == request && current_->telling()) current_->stop();
}

std::optional<PromptProgress> Engine::prompt_progress() const {
  if (!current_) return std::nullopt;
  return current_->progress();
}

void Engine::cancel_current() {
  if (!idle()) cancel(current_ ? current_->id() : waiting_.front().id);
}

void Engine::on_guesses(int rank, const wire::Guesses& guesses) {
  if (current_) current_->decoder().on_guesses(rank, guesses);
}

void Engine::on_drafter_lost(int rank) { sources_.drop(rank); }

bool Engine::awaits(int rank) const { return current_ && current_->decoder().awaits(rank); }

void Engine::run() {
  try {
    while (!idle()) {
      const bool heard = head_.step();
      if (!advance() && !heard) head_.rest();
    }
  } catch (const Interrupted&) {
    cancel_current();
    throw;
  }
}

}  // namespace yamata
