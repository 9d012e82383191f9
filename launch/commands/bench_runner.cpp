#include "launch/commands/bench_runner.hpp"

#include <algorithm>
#include <utility>

namespace yamata {
namespace {

constexpr SequenceRange kText{0, 1};  // everything in the cache
// for tests of a width: a single run may be shorter than the jitter of timers
constexpr auto kShortestSample = std::chrono::milliseconds(50);

}  // namespace

BenchRunner::BenchRunner(Head& head, std::int64_t vocabulary, std::int32_t first, int batch, bool grows)
    : head_(head), vocabulary_(vocabulary), first_(first), batch_(batch), grows_(grows) {}

std::int32_t BenchRunner::random_token() { return static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(vocabulary_)); }

void BenchRunner::submit(int tokens, Wanted logit_rows) {
  wire::Record run;
  if (std::exchange(cut_, false)) run.operations.push_back(CacheOperation::remove(kText, {held_, kUnbounded}));
  for (int i = 0; i < tokens; ++i, ++held_) {
    run.tokens.push_back(held_ == 0 && first_ >= 0 ? first_ : random_token());
    run.placements.push_back({held_, -1, kText});
    if (logit_rows == Wanted::kAll || (logit_rows == Wanted::kLast && i + 1 == tokens)) run.logit_rows.push_back(i);
  }
  out_.push_back(head_.target().submit(std::move(run)));
}

void BenchRunner::drain(std::size_t most_out) {
  for (; out_.size() > most_out; out_.pop_front()) head_.wait_result(out_.front());
}

void BenchRunner::cut_to(int tokens) {
  cut_ = cut_ || tokens < held_;
  held_ = tokens;
}

void BenchRunner::prompt(int tokens) {
  const auto in_flight = 2 * static_cast<std::size_t>(head_.ranks());
  for (int left = tokens; left > 0; left -= batch_) {
    drain(in_flight);
    submit(std::min(left, batch_), left <= batch_ ? Wanted::kLast : Wanted::kNone);
  }
  drain(0);
}

void BenchRunner::generate(int tokens) {
  for (int i = 0; i < tokens; ++i) {
    submit(1, Wanted::kLast);
    drain(0);
  }
}

int BenchRunner::check(int width) {
  const auto began = Clock::now();
  const int place = held_;
  int runs = 0;
  do {
    cut_to(place);
    submit(width, Wanted::kAll);
    drain(0);
    ++runs;
  } while (Clock::now() - began < kShortestSample && (!grows_ || place == 0));
  return runs;
}

int BenchRunner::work(const BenchTest& test) {
  if (test.width > 0) return check(test.width);
  if (test.prompt > 0) prompt(test.prompt);
  if (test.generate > 0) generate(test.generate);
  return 1;
}

void BenchRunner::warm_up(const BenchTest& test) {
  if (test.width > 0) {
    submit(test.width, Wanted::kAll);
    drain(0);
    return;
  }
  if (test.prompt > 0) prompt(test.prompt);
  if (test.generate > 0) generate(1);
}

void BenchRunner::reach(int depth) {
  cut_to(grows_ && held_ != depth ? 0 : std::min(held_, depth));
  if (held_ < depth) prompt(depth - held_);
}

BenchTimes BenchRunner::run(const BenchTest& test, int repetitions, bool warms_up, const std::function<void(int done)>& on_repetition) {
  BenchTimes times;
  times.busy_s.resize(static_cast<std::size_t>(head_.ranks()));
  reach(test.depth);
  if (warms_up) warm_up(test);
  for (int i = 0; i < repetitions; ++i) {
    on_repetition(i);
    reach(test.depth);
    const auto before = head_.ask_reports();
    const auto began = Clock::now();
    const int parts = work(test);
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began);
    const auto after = head_.ask_reports();
    times.samples_ns.push_back(static_cast<std::uint64_t>(took.count() / parts));
    times.tokens += static_cast<std::uint64_t>(parts) * static_cast<std::uint64_t>(test.tokens());
    times.wall_s += std::chrono::duration<double>(took).count();
    for (std::size_t r = 0; r < after.size(); ++r) times.busy_s[r] += after[r].busy_s - before[r].busy_s;
  }
  return times;
}

}  // namespace yamata
