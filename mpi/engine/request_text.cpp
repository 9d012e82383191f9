#include "mpi/engine/request_text.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/sampling/best_logits.hpp"

namespace yamata {
namespace {

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

}  // namespace

RequestText::RequestText(const DecodeOptions& options, RequestId id, Request request, RequestObserver& observer)
    : options_(options_of(options, id, request)),
      request_(std::move(request)),
      submitted_(Clock::now()),
      observer_(observer),
      text_(request_.prompt),
      sampler_(request_.sampling, request_.prompt.size() - static_cast<std::size_t>(request_.kept)),
      grammar_state_(state_behind_kept(request_)) {
  completion_.request = id;
  sampler_.ban(request_.banned);
}

void RequestText::begin(Target& target, const Place& place, PrefixCache& cache) {
  const auto generated = static_cast<std::int32_t>(completion_.token_ids.size());
  DecodeOptions options = options_;
  options.request = place.number;
  options.sequences = place.sequences;
  options.generate -= generated;
  options.kept += generated;
  drafters_ = &place.sources.drafters();
  decoder_ = std::make_unique<Decoder>(
      target, place.sources, options,
      [this](std::vector<float>& logits, std::span<const std::int32_t> history) {
        return attempt([&] { return choose(logits, history); });
      },
      [this](std::int32_t token) { return attempt([&] { return take(token); }); });
  const bool reuses = request_.reuse && !decoder_->reads_features();
  CachedBeginning cached = cache.find(text_, reuses);
  if (reuses && place.beginning.tokens > cached.tokens) cached = place.beginning;
  if (cache.has_checkpoints()) keep_checkpoints(cache, place.sequences.begin, static_cast<std::size_t>(cached.tokens));
  if (!began_) {
    began_ = Clock::now();
    completion_.cached_tokens = static_cast<std::size_t>(cached.tokens);
  }
  decoder_->begin(text_, cached);
}

void RequestText::pause() {
  text_ = decoder_->text();
  completion_.counters += decoder_->counters();
  for (const DraftLink* drafter : *drafters_) completion_.feature_bytes += drafter->feature_bytes();
  decoder_.reset();
}

FinishReason RequestText::reason() const {
  if (interrupted_) return FinishReason::kInterrupted;
  if (stopped_) return FinishReason::kStop;
  const std::size_t generated = completion_.token_ids.size();
  const bool full = request_.prompt.size() + generated > static_cast<std::size_t>(options_.context);
  return full && static_cast<std::int32_t>(generated) < request_.generate ? FinishReason::kContext : FinishReason::kLength;
}

Completion RequestText::complete(FinishReason reason) {
  completion_.finish = reason;
  if (decoder_) pause();
  if (drafters_ && !drafters_->empty()) completion_.first_choice_rate = drafters_->front()->calibration().first_choice_rate();
  return std::move(completion_);
}

/// Checkpoints after the prompt, once before its last runs, and now and then before that. `from`: tokens that are there already.
void RequestText::keep_checkpoints(PrefixCache& cache, std::int32_t sequence, std::size_t from) {
  decoder_->on_prompt_sent = [this, &cache, sequence, from](std::size_t sent) mutable {
    const std::size_t all = text_.size();
    const auto most = static_cast<std::size_t>(options_.batch);
    const bool before_last = all - sent <= most && all - from > most;
    if (sent < all && sent - from < PrefixCache::kInterval && !before_last) return;
    cache.keep_checkpoint(std::span(text_).first(sent), sequence, sent == all);
    from = sent;
  };
}

std::int32_t RequestText::choose(std::vector<float>& logits, std::span<const std::int32_t> history) {
  if (request_.checksum) {
    for (const float value : logits) checksum_.add(std::bit_cast<std::uint32_t>(value));
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
std::vector<TokenLogprob> RequestText::note_probabilities(std::span<const float> logits) {
  if (!request_.logprobs) return {};
  logits_.assign(logits.begin(), logits.end());
  log_sum_ = decoder_->log_sum() ? *decoder_->log_sum() : log_sum_exp(logits);
  std::vector<TokenLogprob> top;
  const auto count = std::min(static_cast<std::size_t>(*request_.logprobs), logits.size());
  if (count == 0) return top;
  const BestLogits best = best_logits(logits, logits.size(), count);
  for (std::size_t i = 0; i < count && best.tokens[i] >= 0; ++i) top.push_back({best.tokens[i], best.values[i] - log_sum_});
  return top;
}

void RequestText::tell_probability(std::int32_t token, const std::vector<TokenLogprob>& top) {
  observer_.on_logprobs(id(), {token, std::min(0.0f, logits_[static_cast<std::size_t>(token)] - log_sum_)}, top);
}

bool RequestText::take(std::int32_t token) {
  if (completion_.token_ids.empty()) {
    completion_.prefill_s = Clock::seconds_since(*began_);
    completion_.first_token_s = Clock::seconds_since(submitted_);
    prefilled_ = Clock::now();
  }
  completion_.token_times_s.push_back(completion_.token_ids.empty() ? 0.0 : Clock::seconds_since(prefilled_));
  completion_.token_ids.push_back(token);
  if (!drafters_->empty()) {
    completion_.choices.resize(completion_.token_ids.size() - 1);  // it may have been without drafters for a while
    const auto choices = drafters_->front()->calibration().last_choices();
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

}  // namespace yamata
