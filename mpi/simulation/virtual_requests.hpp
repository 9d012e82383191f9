#pragma once
// The requests of a simulated job: when they come, and what becomes of them.
#include <cstdint>
#include <functional>
#include <vector>

#include "mpi/engine/engine.hpp"
#include "mpi/simulation/virtual_network.hpp"
#include "src/simulation/synthetic_text.hpp"

namespace yamata::simulation {

/// When `count` requests come, in ascending order, the first at 0: `per_s` each second on average, independently of each other (a Poisson
/// process); all at 0 if this is 0.
std::vector<Nanoseconds> request_times(int count, double per_s, std::uint64_t seed);

/// A request in virtual time.
struct TimedRequest {
  Nanoseconds submitted = 0;
  std::vector<Nanoseconds> arrived;  ///< when each of its tokens was known
};

/// Tokens per second of all texts: while all grow, if they do so until each has another token on average; else from the first request until
/// the last token. 0: there is no such time.
double tokens_per_s(const std::vector<TimedRequest>& requests);

/// Submits requests to an engine, and observes them.
class VirtualRequests final : public RequestObserver {
 public:
  /// As many requests as `times`, each with a prompt of its own of `prompt` tokens. `text` and `now`, the time, outlive this.
  VirtualRequests(const SyntheticText& text, std::int32_t prompt, std::int32_t generate, const std::vector<Nanoseconds>& times,
                  const Nanoseconds& now);

  /// Submits the requests that have come by now.
  void submit(Engine& engine);
  bool all_ended() const { return ended_ == requests_.size(); }
  const std::vector<TimedRequest>& requests() const { return requests_; }
  const std::vector<std::int32_t>& first_text() const { return tokens_.front(); }
  /// Whether the texts are those that the target alone would generate.
  bool exact() const;
  /// Of the texts that have ended.
  const Decoder::Counters& counters() const { return counters_; }
  /// Completion::first_choice_rate of the text that ended last.
  double first_choice_rate() const { return first_choice_rate_; }

  void on_token(RequestId request, std::int32_t token) override;
  void on_finished(Completion completion) override;
  std::function<void(std::size_t request)> after_token;  ///< called after every token, with the number of its request, from 0 on

 private:
  const SyntheticText& text_;
  const std::int32_t generate_;
  const Nanoseconds& now_;
  std::vector<TimedRequest> requests_;
  std::vector<std::vector<std::int32_t>> prompts_, tokens_;
  std::size_t submitted_ = 0, ended_ = 0;
  Decoder::Counters counters_;
  double first_choice_rate_ = 0;
};

}  // namespace yamata::simulation
