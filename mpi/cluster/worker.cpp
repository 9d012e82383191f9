#include "mpi/cluster/worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "mpi/cluster/announcements.hpp"
#include "mpi/cluster/rank_lost.hpp"
#include "mpi/cluster/reports.hpp"
#include "mpi/protocol/validate.hpp"
#include "node/error.hpp"
#include "node/limits.hpp"

namespace yamata {
namespace {

/// Time in which a rank that reports why the job ends has told the others. A rank that hears a lower rank waits for that one, see
/// on_heartbeat.
constexpr std::chrono::milliseconds kGrace{500};
/// The head needs more time than the others before its first message, and its guard detects sooner whether it was stopped.
constexpr std::chrono::milliseconds kPreparations{2000}, kNone{0};
/// A head that lives, but that this rank does not hear, reports this rank within this time; the launcher then ends the job.
constexpr std::chrono::milliseconds kReported{1500};
/// A head that lives, but that does not hear this rank either, announces within this time that the job continues without it. It may have
/// heard this rank one heartbeat later than this rank heard it, and look one later; then the launcher takes a moment.
std::chrono::milliseconds time_to_leave_out(std::chrono::milliseconds timeout) {
  return std::min<std::chrono::milliseconds>(timeout / 4, std::chrono::seconds(2)) + std::chrono::milliseconds(500);
}
/// While links are measured, the next message arrives within this time.
constexpr std::chrono::milliseconds kProbing{5};

}  // namespace

Worker::Worker(Transport& transport, const WorkerSetup& setup)
    : transport_(transport),
      setup_(setup),
      liveness_(transport.size(), setup.timeout, Clock::now()),
      dispatcher_(transport),
      sent_before_(transport.bytes_sent()),
      fetch_(transport, setup.fetch) {
  for (int r = 0; r < transport.size(); ++r) liveness_.name(r, transport.host(r));
}

void Worker::begin() {
  attempt([&] {
    fetch_.begin();
    if (fetch_.finished()) return join();
    state_ = State::kOpening;
  });
  liveness_.watch(0, Clock::now());
}

void Worker::join() {
  hello_ = setup_.open();
  transport_.send(0, Tag::kHello, wire::encode(hello_));
  state_ = State::kAwaitingPlan;
}

/// Runs `work`; errors are sent to the head.
template <class Work>
void Worker::attempt(Work work) {
  if (state_ == State::kFailed) return;
  try {
    work();
  } catch (const Error& e) {
    fail({static_cast<int>(e.code()), e.what()});
  } catch (const std::bad_alloc&) {
    fail({static_cast<int>(ExitCode::kModel), "out of memory; lower -c or give this rank fewer layers" + or_raise_memory_limit()});
  } catch (const std::system_error& e) {
    const ModelError error = refused(e);
    fail({static_cast<int>(error.code()), error.what()});
  } catch (const std::exception& e) {
    fail({static_cast<int>(ExitCode::kCluster), e.what()});
  }
}

/// From now on, this rank only waits for the end.
void Worker::fail(const wire::Failure& failure) {
  speed_.reset();
  shared_layer_.reset();
  fetch_.cancel();
  state_ = State::kFailed;
  transport_.send(0, Tag::kFailure, wire::encode(failure));
}

/// Its weights must be present before its stages are made.
void Worker::take_plan(wire::Start plan) {
  const std::int64_t now_us = Trace::now_us();
  if (state_ != State::kAwaitingPlan || speed_) throw ClusterError("a second plan came for the same job");
  wire::validate(plan, transport_.size(), 0);
  // On one machine, the clocks are equal; otherwise this is wrong by as much as the link's latency was measured wrongly.
  clock_offset_us_ = plan.head_host == setup_.host ? 0 : plan.head_time_us - now_us;
  plan_ = std::move(plan);
  state_ = State::kFetching;
  fetch_.begin(plan_);
  if (fetch_.finished()) take_place();
}

void Worker::take_place() {
  dispatcher_.build(plan_, setup_.make_stage);
  for (const wire::PipelinePlan& part : plan_.pipelines) {
    if (part.model == 0) target_ranks_.insert(part.ranks.begin(), part.ranks.end());
  }
  if (dispatcher_.empty()) {  // it waits for the end of the job
    become_dispensable(true);
    return serve();
  }
  dispatcher_.load();
  state_ = State::kLoading;
  for (Message& message : early_) take(std::move(message));
  early_.clear();
}

void Worker::serve() { state_ = State::kServing; }

/// A failed rank waits for kStop.
void Worker::leave_job() {
  if (dispensable_) become_dispensable(false);
  if (state_ != State::kFailed) state_ = State::kJobOver;
}

void Worker::end(int exit_code) {
  speed_.reset();
  fetch_.cancel();
  shared_layer_.reset();
  if (dispensable_) become_dispensable(false);  // all ranks leave the job at the same time
  exit_code_ = exit_code;
  state_ = State::kStopped;
  transport_.send(0, Tag::kReport, wire::encode(report()));
}

void Worker::become_dispensable(bool dispensable) {
  dispensable_ = dispensable;
  if (setup_.dispensable) setup_.dispensable(dispensable);
}

bool Worker::step() {
  bool anything = false;
  while (!ended()) {  // messages after the end are not for this worker
    auto message = transport_.receive();
    if (!message) break;
    dispatch(std::move(*message));
    anything = true;
  }
  if (ended()) return true;
  if (setup_.launcher_gone && *setup_.launcher_gone && state_ != State::kFailed)
    fail({static_cast<int>(ExitCode::kCluster), "the launcher's daemon on this machine has died, which ends the job", true});
  attempt([&] { anything |= advance_fetch() || advance_measuring() || advance_benchmark() || dispatcher_.advance(); });
  send_heartbeats();
  if (anything) idle_.reset();
  return anything;
}

void Worker::dispatch(Message message) {
  if (message.tag == Tag::kPart) return liveness_.heard_part(message.from, Clock::now());
  liveness_.heard(message.from, Clock::now());
  switch (message.tag) {
    case Tag::kStart:
      attempt([&] { take_plan(wire::decode_start(message.bytes)); });
      break;
    case Tag::kModelFiles:
    case Tag::kChunk:
      attempt([&] { fetch_.take(message); });
      break;
    case Tag::kMeasure:
      attempt([&] { measure(); });
      break;
    case Tag::kProbe:
      attempt([&] { answer(wire::decode_probe(message.bytes)); });
      break;
    case Tag::kBenchmark:
      attempt([&] { benchmark(wire::decode_benchmark_request(message.bytes)); });
      break;
    case Tag::kStop: {
      const std::int32_t code = wire::decode_stop(message.bytes);
      wire::validate_stop(code, message.from);
      end(code);
      break;
    }
    case Tag::kAsk:
      transport_.send(0, Tag::kReport, wire::encode(report()));
      break;
    case Tag::kLeftOut:
      be_left_out();
      break;
    case Tag::kNextJob:
      leave_job();
      break;
    case Tag::kHeartbeat:
      attempt([&] { on_heartbeat(message.from, wire::decode_heartbeat(message.bytes)); });
      break;
    default:
      attempt([&] { take(std::move(message)); });
  }
}

wire::Heartbeat Worker::heartbeat() const {
  wire::Heartbeat own = dispatcher_.heartbeat();
  own.progress += liveness_.parts() + fetch_.progress();
  if (fetch_.has_tasks())  // fetching is the first half of loading
    own.loaded_permille = static_cast<std::uint16_t>((1000 * fetch_.share() + own.loaded_permille) / 2);
  own.hears = liveness_.hears();
  own.receives = liveness_.receives();
  return own;
}

/// From the head: whether the job can continue without drafters. If it asks, all ranks send each other heartbeats, so
/// that each can tell it whom it hears. From another rank that asks: it does not hear the head either. Only one rank should report that:
/// the lowest one that is alive and, once the plan is known, holds the target (if no rank that lives does: the lowest one). The others may
/// be lost themselves.
void Worker::on_heartbeat(int from, const wire::Heartbeat& heartbeat) {
  wire::validate(heartbeat, from);
  if (from == 0) {
    if (heartbeat.serving) liveness_.shorten_deadlines(setup_.serving_timeout, Clock::now());
    if (heartbeat.can_lose_drafters && dispatcher_.drafts_only() && !dispensable_) become_dispensable(true);
    if (heartbeat.asks) send_to_others(this->heartbeat());
    return;
  }
  liveness_.tell(from, heartbeat);
  if (heartbeat.asks) {
    transport_.send(from, Tag::kHeartbeat, wire::encode(this->heartbeat()));
    if (from < transport_.rank() && (target_ranks_.empty() || target_ranks_.contains(from) || watches_alone()))
      liveness_.hold_back(Clock::now());
  }
}

/// Whether no rank but those that the job does not need can report the head: it alone holds the target, or no other rank that holds it
/// answers.
bool Worker::watches_alone() const {
  return dispensable_ && !target_ranks_.empty() &&
         std::ranges::none_of(target_ranks_, [&](int rank) { return rank != 0 && liveness_.heard_lately(rank); });
}

/// The head's silence means nothing from now on. If the machine is cut off from the launcher, too, the guard ends this rank. A rank that
/// failed before the head served does not know yet that it is dispensable. No head leaves out a rank before its plan: that message belongs
/// to the job before.
void Worker::be_left_out() {
  if (target_ranks_.empty()) return;
  if (target_ranks_.contains(transport_.rank()))
    return attempt([] { throw ClusterError("the head has left out a rank that the job needs"); });
  if (!dispensable_) become_dispensable(true);
  liveness_.unwatch(0);
  if (setup_.head_unheard) setup_.head_unheard();
}

void Worker::answer(const wire::Probe& probe) {
  transport_.send(0, Tag::kProbe, wire::encode(wire::Probe{probe.number}));
  probed_ = Clock::now();
}

void Worker::measure() {
  if (state_ != State::kAwaitingPlan || speed_ || shared_layer_ || !setup_.measure)
    throw ClusterError("a speed is asked for while this rank has other work");
  speed_ = std::make_unique<SpeedMeasurement>(setup_.measure);
}

bool Worker::advance_fetch() {
  if (state_ != State::kOpening && state_ != State::kFetching) return false;
  const bool anything = fetch_.advance();
  if (!fetch_.finished()) return anything;
  state_ == State::kOpening ? join() : take_place();
  return true;
}

bool Worker::advance_measuring() {
  if (!speed_ || !speed_->finished()) return false;
  const wire::Measured measured = speed_->take();
  speed_.reset();
  transport_.send(0, Tag::kMeasured, wire::encode(measured));
  return true;
}

void Worker::benchmark(const wire::BenchmarkRequest& layer) {
  wire::validate(layer, transport_.size(), transport_.rank(), 0);
  if (state_ != State::kAwaitingPlan || speed_ || shared_layer_)
    throw ClusterError("a layer is to be shared while this rank has other work");
  shared_layer_ = std::make_unique<SharedLayer>(transport_, layer, setup_.make_layer);
}

bool Worker::advance_benchmark() {
  if (!shared_layer_ || !shared_layer_->advance()) return false;
  if (!shared_layer_->finished()) return true;
  transport_.send(0, Tag::kBenchmarkResult, wire::encode(shared_layer_->result()));
  shared_layer_.reset();
  return true;
}

/// The stream comes from the stage before, the plan from the head. Messages that arrive before the plan are kept until then.
void Worker::take(Message message) {
  if (state_ == State::kAwaitingPlan || state_ == State::kFetching) {
    early_.push_back(std::move(message));
    return;
  }
  if (!dispatcher_.dispatch(message)) throw ClusterError("a message came that this rank does not take; do all ranks run the same yamata?");
}

void Worker::send_heartbeats() {
  const bool now_loaded = state_ == State::kLoading && dispatcher_.loaded();
  const auto now = Clock::now();
  if (!liveness_.due(now, state_ == State::kLoading) && !now_loaded) return;
  if (now_loaded) serve();
  transport_.send(0, Tag::kHeartbeat, wire::encode(heartbeat()));
  const bool was_suspicious = std::exchange(suspicious_, liveness_.suspicious(now));
  if (!was_suspicious) reaches_launcher_ = true;
  if (suspicious_) ask_around();
  check_head(now);
}

void Worker::send_to_others(const wire::Heartbeat& heartbeat) {
  for (int r = 1; r < transport_.size(); ++r) {
    if (r != transport_.rank()) transport_.send(r, Tag::kHeartbeat, wire::encode(heartbeat));
  }
}

/// Finds out whether the head or this rank is cut off. A rank that watches alone could end a job that continues without it, so it must
/// have reached the launcher all the time.
void Worker::ask_around() {
  wire::Heartbeat question = heartbeat();
  question.asks = true;
  send_to_others(question);
  if (watches_alone()) reaches_launcher_ &= setup_.reaches_launcher && setup_.reaches_launcher().value_or(true);
}

/// Higher ranks wait longer, so that only one rank reports it. A head that lives reports this rank, at about the same time; a rank that the
/// job does not need, and that hears no rank that it needs, then learns from the launcher that it is left out.
void Worker::check_head(Clock::time_point now) {
  if (setup_.woken && setup_.woken->exchange(false)) liveness_.hold_back(now);
  const bool head_may_live = transport_.size() == 2 || liveness_.is_heard_by_another(0);
  const auto preparations = liveness_.met(0) ? kNone : kPreparations;
  const auto head_reports = watches_alone() ? time_to_leave_out(setup_.timeout) : head_may_live ? kReported : kNone;
  const auto silent = liveness_.silent(now, kGrace * (transport_.rank() - 1) + preparations + head_reports);
  if (!silent) return;
  const bool reports = watches_alone() && reaches_launcher_ && !(setup_.announced_left_out && setup_.announced_left_out());
  if (!dispensable_ || reports) throw RankLost(*silent, liveness_.silence_text(*silent, transport_.rank(), setup_.reaches_launcher));
  be_left_out();  // the job continues, as far as this rank knows; it ends with the job
}

void Worker::rest() {
  if (state_ == State::kAwaitingPlan && Clock::now() - probed_ < kProbing)
    return std::this_thread::yield();  // a sleep would distort the measurement
  if (shared_layer_) return idle_.rest_in_group(transport_);
  const bool computing = state_ != State::kFailed && dispatcher_.computing();
  if (computing && dispatcher_.computing_in_group()) return idle_.rest_in_group(transport_);
  computing ? idle_.rest_computing(transport_) : idle_.rest(transport_);
}

wire::Report Worker::report() {
  wire::Report report = report_of_rank(transport_, idle_, sent_before_, setup_.host,
                                       dispatcher_.empty()         ? "idle"
                                       : dispatcher_.drafts_only() ? "drafter"
                                                                   : "stage");
  report.isa = hello_.isa;
  report.threads = hello_.threads;
  report.fetched_bytes = fetch_.bytes();
  if (setup_.mapped_bytes) report.mapped_bytes = setup_.mapped_bytes();
  dispatcher_.describe(report, clock_offset_us_);
  return report;
}

int run_worker(Transport& transport, const WorkerSetup& setup) {
  try {
    while (true) {
      Worker worker(transport, setup);
      worker.begin();
      while (!worker.ended()) {
        if (!worker.step()) worker.rest();
      }
      if (const auto code = worker.exit_code()) return *code;
    }
  } catch (const RankLost& e) {  // another rank is lost: the message does not name this one
    fmt::print(stderr, "yamata: {}\n", e.what());
    announce_end(transport, static_cast<int>(e.code()));
    transport.abort(static_cast<int>(e.code()));
    return static_cast<int>(e.code());
  } catch (const Error& e) {
    fmt::print(stderr, "yamata: rank {} ({}): {}\n", transport.rank(), setup.host, e.what());
    transport.abort(static_cast<int>(e.code()));
    return static_cast<int>(e.code());
  }
}

}  // namespace yamata
