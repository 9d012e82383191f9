#include "mpi/simulation/virtual_requests.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/simulation/table_model.hpp"

namespace yamata::simulation {

std::vector<Nanoseconds> request_times(int count, double per_s, std::uint64_t seed) {
  constexpr std::uint64_t kArrivals = 4096;  // another sequence of random numbers than those of the texts
  std::vector<Nanoseconds> times;
  double at_s = 0;
  for (int i = 0; i < count; ++i) {
    times.push_back(std::llround(1e9 * at_s));
    if (per_s > 0) at_s -= std::log1p(-share(mix(mix(seed, kArrivals), static_cast<std::uint64_t>(i)))) / per_s;
  }
  return times;
}

double tokens_per_s(const std::vector<TimedRequest>& requests) {
  const auto rate = [&](Nanoseconds from, Nanoseconds to, std::size_t least) {
    std::size_t tokens = 0;
    for (const TimedRequest& request : requests)
      tokens += static_cast<std::size_t>(std::ranges::count_if(request.arrived, [&](Nanoseconds at) { return at > from && at <= to; }));
    return to > from && tokens >= least ? 1e9 * static_cast<double>(tokens) / static_cast<double>(to - from) : 0.0;
  };
  const auto begin = [](const TimedRequest& request) { return request.arrived.front(); };
  const auto end = [](const TimedRequest& request) { return request.arrived.back(); };
  const double together =
      rate(begin(*std::ranges::max_element(requests, {}, begin)), end(*std::ranges::min_element(requests, {}, end)), requests.size());
  return together > 0 ? together : rate(requests.front().submitted, end(*std::ranges::max_element(requests, {}, end)), 1);
}

VirtualRequests::VirtualRequests(const SyntheticText& text, std::int32_t prompt, std::int32_t generate,
                                 const std::vector<Nanoseconds>& times, const Nanoseconds& now)
    : text_(text), generate_(generate), now_(now), tokens_(times.size()) {
  for (const Nanoseconds at : times) {
    prompts_.push_back(text.prompt(prompt, requests_.size()));
    requests_.push_back({at, {}});
  }
}

void VirtualRequests::submit(Engine& engine) {
  for (; submitted_ < requests_.size() && requests_[submitted_].submitted <= now_; ++submitted_) {
    Request request;
    request.prompt = prompts_[submitted_];
    request.generate = generate_;
    request.reuse = false;
    engine.submit(std::move(request), *this);
  }
}

bool VirtualRequests::exact() const {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (tokens_[i] != text_.continuation(prompts_[i], static_cast<std::int32_t>(tokens_[i].size()))) return false;
  }
  return true;
}

void VirtualRequests::on_token(RequestId request, std::int32_t token) {
  const auto index = static_cast<std::size_t>(request - 1);
  tokens_[index].push_back(token);
  requests_[index].arrived.push_back(now_);
  if (after_token) after_token(index);
}

void VirtualRequests::on_finished(Completion completion) {
  ++ended_;
  counters_ += completion.counters;
  first_choice_rate_ = completion.first_choice_rate;
}

}  // namespace yamata::simulation
