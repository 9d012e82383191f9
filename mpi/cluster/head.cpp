#include "mpi/cluster/head.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

#include "mpi/protocol/validate.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr std::chrono::milliseconds kLongestLook{100};

template <class Message>
Message validated(Message message, int from) {
  wire::validate(message, from);
  return message;
}

}  // namespace

Head::Head(Transport& transport, ClusterOptions options)
    : transport_(transport),
      options_(std::move(options)),
      members_(transport, options_.timeout, options_.reaches_launcher),
      dispatcher_(transport),
      reports_(transport.size()),
      weights_(transport, options_.weights),
      awake_(Clock::now(), std::min<std::chrono::milliseconds>(kLongestLook, options_.timeout / 2)),
      sent_before_(transport.bytes_sent()) {
  dispatcher_.on_guesses = [this](int rank, const wire::Guesses& guesses) {
    if (listener_ && !members_.lost(rank)) listener_->on_guesses(rank, guesses);
  };
}

void Head::start(const wire::Hello& own, const std::vector<std::uint64_t>& fingerprints, const Planner& plan,
                 const StageFactory& make_stage) {
  begin(own, fingerprints, plan, make_stage);
  while (state_ != State::kServing) {
    if (!step()) rest();
  }
}

void Head::begin(const wire::Hello& own, const std::vector<std::uint64_t>& fingerprints, const Planner& plan,
                 const StageFactory& make_stage) {
  own_ = own;
  setup_ = {fingerprints, plan, make_stage};
  members_.joined(0, own);
  if (options_.on_joined) options_.on_joined(0, own.host);
  state_ = State::kGathering;
}

void Head::joined(int rank, wire::Hello hello) {
  const std::string host = hello.host;
  members_.joined(rank, std::move(hello));
  if (options_.on_joined) options_.on_joined(rank, host);
}

/// Advances the state of the job after messages have been handled.
void Head::advance_state() {
  switch (state_) {
    case State::kGathering:
      if (members_.all_joined()) gathered();
      break;
    case State::kMeasuring:
      if (measuring_->finished()) measured();
      break;
    case State::kProbing:
      if (probe_->finished()) probed();
      break;
    case State::kBenchmarking:
      if (benchmark_->finished()) send_plan();
      break;
    case State::kLoading:
      check_loaded();
      break;
    case State::kStopping:
      check_stopped();
      break;
    default:
      break;
  }
}

/// All ranks have joined.
void Head::gathered() {
  members_.check_agreement(setup_.fingerprints);
  if (!options_.measure) return measured();
  measuring_.emplace(members_.hellos());
  state_ = State::kMeasuring;
  for (const int rank : measuring_->first()) start_measuring(rank);
}

void Head::start_measuring(int rank) {
  measure_since_[rank] = awake_.look(Clock::now());
  if (rank == 0) {
    speed_.emplace(options_.measure);
  } else {
    transport_.send(rank, Tag::kMeasure, {});
  }
}

void Head::take_measured(int rank, wire::Measured measured) {
  if (state_ == State::kStopping) return;  // it began before the job was ended
  if (state_ != State::kMeasuring) throw ClusterError("a rank has measured its speed unasked; do all ranks run the same yamata?");
  const std::optional<int> next = measuring_->after(rank);
  measure_since_.erase(rank);
  members_.measured(rank, std::move(measured));
  if (next) start_measuring(*next);
}

/// A rank may be alive and yet never finish its measurement. Time in which this process was stopped does not count.
void Head::check_measuring(Clock::time_point now) {
  const auto awake = awake_.look(now);
  for (const auto& [rank, since] : measure_since_) {
    if (awake - since < options_.timeout) continue;
    throw RankLost(
        rank,
        fmt::format("rank {} ({}) has measured its speed for {:g} s without an end; is its disk or machine overloaded? (or raise "
                    "--timeout)",
                    rank, members_.hellos()[static_cast<std::size_t>(rank)].host, std::chrono::duration<double>(options_.timeout).count()));
  }
}

/// The speeds are known, or none are needed.
void Head::measured() {
  if (!options_.probes_links) return send_plan();
  probe_.emplace(transport_);
  state_ = State::kProbing;
}

/// The links are known.
void Head::probed() {
  if (!options_.next_group) return send_plan();
  const auto next = [this, links = probe_->links()](std::span<const GroupTime> so_far) {
    return options_.next_group(members_.hellos(), links, so_far);
  };
  benchmark_.emplace(transport_, next, options_.make_layer);
  state_ = State::kBenchmarking;
}

/// Sends the plan to all ranks, which then load their parts.
void Head::send_plan() {
  plan_ = setup_.plan(members_.hellos());
  members_.place(plan_);
  plan_.job = Trace::now_us();
  const std::vector<Link> measured = links();
  for (int r = 1; r < transport_.size(); ++r) {
    plan_.head_host = own_.host;
    const double latency_s = measured.empty() ? 0 : measured[static_cast<std::size_t>(r)].latency_s;
    plan_.head_time_us = Trace::now_us() + static_cast<std::int64_t>(1e6 * latency_s);
    transport_.send(r, Tag::kStart, wire::encode(plan_));
  }
  dispatcher_.build(plan_, setup_.make_stage);
  dispatcher_.load();
  state_ = State::kLoading;
}

void Head::check_loaded() {
  std::uint64_t all = 1000, sum = dispatcher_.heartbeat().loaded_permille;
  for (int r = 1; r < transport_.size(); ++r) {
    if (members_.idle(r)) continue;
    all += 1000;
    sum += members_.state(r).loaded_permille;
  }
  if (options_.on_loading) options_.on_loading(static_cast<double>(sum) / static_cast<double>(all));
  if (sum < all || !dispatcher_.loaded()) return;
  members_.serve(plan_, options_.needs_drafters, options_.serving_timeout);
  state_ = State::kServing;
}

bool Head::step() {
  bool anything = false;
  while (auto message = transport_.receive()) {
    dispatch(std::move(*message));
    anything = true;
  }
  if (state_ == State::kStopping) {
    if (Pipeline* target = dispatcher_.target()) anything |= target->advance();  // the results of drafters are not needed any more
  } else {
    anything |= dispatcher_.advance();
    anything |= weights_.advance();
    if (options_.interrupted && *options_.interrupted) throw Interrupted{};
    if (transport_.size() > 1) watch_ranks();
  }
  const State before = state_;
  if (speed_ && speed_->finished()) {
    const wire::Measured own = speed_->take();
    speed_.reset();
    take_measured(0, own);
    anything = true;
  }
  if (state_ == State::kProbing) anything |= probe_->advance(Clock::now());
  if (state_ == State::kBenchmarking) anything |= benchmark_->advance();
  advance_state();
  anything |= state_ != before;
  if (anything) idle_.reset();
  return anything;
}

RunResult Head::wait_result(std::uint64_t run) {
  while (true) {
    while (auto result = target().take_result()) {
      if (result->run == run) return std::move(*result);
      if (result->run > run) throw std::logic_error("the result of this run has been taken before");
    }
    if (!step()) rest();
  }
}

bool Head::misses_rank() const {
  for (int rank = 1; rank < transport_.size(); ++rank) {
    if (!members_.lost(rank) && transport_.has_ended(rank)) return true;
  }
  return false;
}

void Head::watch_ranks() {
  const auto now = Clock::now();
  wire::Heartbeat own = dispatcher_.heartbeat();
  own.progress += members_.parts();
  wire::Heartbeat told = own;
  told.serving = state_ == State::kServing;
  told.can_lose_drafters = told.serving && !options_.needs_drafters;
  if (!members_.send_heartbeats(now, told)) return;
  if (options_.woken && options_.woken->exchange(false)) members_.hold_back(now);
  if (const auto silent = members_.find_silent(now)) lose(*silent);
  check_measuring(now);
  if (listener_) {
    const auto awaited = [this](int leader) { return listener_->awaits(leader); };
    if (const auto stalled = members_.find_stalled_drafter(now, awaited)) lose(*stalled);
  }
  const Pipeline* target = dispatcher_.target();
  if (target) members_.check_progress(now, state_ == State::kLoading || target->outstanding() > 0, own, target->ranks().stages);
}

/// What a warning says of the rest of the job.
const char* Head::goes_on() const { return state_ == State::kStopping ? "job ends" : "text goes on"; }

/// The job can continue without a drafter or an idle rank, but not without a stage.
void Head::lose(const RankLost& lost) {
  if (members_.idle(lost.rank)) return lose_idle(lost.rank, lost.what());
  const auto drafter = members_.drafter_of(lost.rank);
  if (!drafter) throw lost;
  if (options_.needs_drafters) throw RankLost(lost.rank, fmt::format("a drafter is lost: {}", lost.what()));
  lose_drafter(*drafter, lost.what());
}

void Head::lose_idle(int rank, const std::string& why) {
  if (!members_.remove_idle(rank)) return;
  if (options_.on_left_out) options_.on_left_out(rank);
  if (options_.on_warning) options_.on_warning(fmt::format("the {} without rank {}, which has no part in it: {}", goes_on(), rank, why));
}

/// If a draft model is on several ranks, all of them are removed.
void Head::lose_drafter(int leader, const std::string& why) {
  const std::vector<int> removed = members_.remove_drafter(leader);
  if (removed.empty()) return;
  for (const int rank : removed) {
    if (options_.on_left_out) options_.on_left_out(rank);
  }
  if (options_.on_warning) options_.on_warning(fmt::format("the {} without the drafter on rank {}: {}", goes_on(), leader, why));
  if (listener_) listener_->on_drafter_lost(leader);
}

void Head::dispatch(Message message) {
  const int from = message.from;
  if (message.tag == Tag::kPart) return members_.heard_part(from);
  if (from != 0) members_.heard(from);
  if (dispatcher_.dispatch(message) || weights_.take(message)) return;
  switch (message.tag) {
    case Tag::kHello:
      if (state_ == State::kGathering) joined(from, validated(wire::decode_hello(message.bytes), from));
      break;
    case Tag::kHeartbeat:
      members_.told(from, validated(wire::decode_heartbeat(message.bytes), from));
      break;
    case Tag::kMeasured:
      take_measured(from, validated(wire::decode_measured(message.bytes), from));
      break;
    case Tag::kProbe:
      if (probe_) probe_->on_answer(from, wire::decode_probe(message.bytes), Clock::now());
      break;
    case Tag::kBenchmarkResult:
      if (benchmark_) benchmark_->on_answer(from, validated(wire::decode_benchmark_result(message.bytes), from));
      break;
    case Tag::kReport:
      reports_.came(from, validated(wire::decode_report(message.bytes), from));
      if (state_ == State::kStopping) members_.unwatch(from);
      break;
    case Tag::kFailure:
      on_failure(from, wire::decode_failure(message.bytes));
      break;
    default:
      throw ClusterError(fmt::format("rank {} sent the head a message it does not take", from));
  }
}

void Head::on_failure(int rank, const wire::Failure& failure) {
  if (state_ == State::kStopping) return;
  const std::string text = fmt::format("rank {}{}: {}", rank, members_.host_suffix(rank), failure.text);
  if (members_.idle(rank) && !failure.ends_job) return lose_idle(rank, text);
  const auto drafter = failure.ends_job ? std::nullopt : members_.drafter_of(rank);
  const bool known = failure.code == static_cast<int>(ExitCode::kUsage) || failure.code == static_cast<int>(ExitCode::kModel);
  if (!drafter || options_.needs_drafters) throw Error(known ? static_cast<ExitCode>(failure.code) : ExitCode::kCluster, text);
  lose_drafter(*drafter, text);
}

void Head::rest() {
  if (state_ == State::kProbing) return std::this_thread::yield();  // a sleep would distort the measurement
  if (state_ == State::kBenchmarking && benchmark_->computing()) return idle_.rest_in_group(transport_);
  Pipeline* target = dispatcher_.target();
  const bool computing = target && !target->stage().model().unit().finished();
  if (computing && dispatcher_.computing_in_group()) return idle_.rest_in_group(transport_);
  computing ? idle_.rest_computing(transport_) : idle_.rest(transport_);
}

wire::Report Head::own_report() {
  wire::Report report = report_of_rank(transport_, idle_, sent_before_, own_.host, dispatcher_.drafts() ? "head, drafter" : "head");
  report.isa = own_.isa;
  report.threads = own_.threads;
  dispatcher_.describe(report, 0);
  return report;
}

bool Head::all_reported() const {
  for (int r = 0; r < transport_.size(); ++r) {
    if (!reports_.has(r) && !members_.lost(r)) return false;
  }
  return true;
}

std::vector<wire::Report> Head::ask_reports() {
  reports_.came(0, own_report());
  for (int r = 1; r < transport_.size(); ++r) transport_.send(r, Tag::kAsk, {});
  while (!all_reported()) {
    if (!step()) rest();
  }
  return take_reports();
}

void Head::finish() {
  state_ = State::kStopped;
  for (int r = 1; r < transport_.size(); ++r) transport_.send(r, Tag::kNextJob, {});
}

void Head::order_stop(int code, std::optional<std::chrono::milliseconds> limit) {
  if (state_ == State::kStopping || state_ == State::kStopped) return;
  state_ = State::kStopping;
  constexpr std::chrono::milliseconds kLongest = std::chrono::seconds(5);
  for (int r = 1; r < transport_.size(); ++r) transport_.send(r, Tag::kStop, wire::encode_stop(code));
  reports_.came(0, own_report());
  stop_deadline_ = awake_.look(Clock::now()) + std::min(kLongest, options_.timeout / 2);
  if (limit) stop_limit_ = Clock::now() + *limit;
  advance_state();
}

/// Gives up drafters and idle ranks that have not reported soon, since the job does not need them. Gives up other ranks after they have
/// been silent for the whole timeout; time in which this process was stopped does not count.
void Head::check_stopped() {
  const auto now = Clock::now();
  if (stop_limit_) {
    if (all_reported() || now >= *stop_limit_) state_ = State::kStopped;
    return;
  }
  const bool late = awake_.look(now) > stop_deadline_;
  for (int r = 1; late && r < transport_.size(); ++r) {
    if (reports_.has(r)) continue;
    constexpr const char* kWhy = "did not answer the request to stop";
    if (members_.idle(r)) lose_idle(r, fmt::format("it {}", kWhy));
    if (const auto drafter = members_.drafter_of(r))
      lose_drafter(*drafter, *drafter == r ? fmt::format("it {}", kWhy) : fmt::format("rank {}{} {}", r, members_.host_suffix(r), kWhy));
  }
  if (const auto silent = members_.find_silent(now)) {
    lose(RankLost(silent->rank,
                  fmt::format("rank {}{} did not answer the request to stop: it is stopped, dead or cut off; look at that machine",
                              silent->rank, members_.host_suffix(silent->rank))));
  }
  if (all_reported()) state_ = State::kStopped;
}

std::vector<wire::Report> Head::stop(int code, std::optional<std::chrono::milliseconds> limit) {
  if (state_ == State::kStopping || state_ == State::kStopped) return {};
  order_stop(code, limit);
  while (state_ != State::kStopped) {
    if (!step()) rest();
  }
  return take_reports();
}

}  // namespace yamata
