#include "mpi/cluster/worker.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "mpi/cluster/liveness.hpp"
#include "mpi/transport/idle.hpp"
#include "node/error.hpp"
#include "node/topology.hpp"

namespace yamata {
namespace {

/// Within it a rank that says why the job ends has told the others.
constexpr std::chrono::milliseconds kGrace{500};
/// The head has more to prepare than the others before it speaks, and its guard sees sooner whether it was stopped.
constexpr std::chrono::milliseconds kPreparations{2000}, kNone{0};

/// What another rank is like: it is said without this one's name.
struct Silence : ClusterError {
  using ClusterError::ClusterError;
};

class Worker {
 public:
  Worker(Transport& transport, const WorkerSetup& setup)
      : transport_(transport),
        setup_(setup),
        liveness_(transport.size(), setup.timeout, Liveness::Clock::now()),
        sent_before_(transport.bytes_sent()) {
    for (int r = 0; r < transport.size(); ++r) liveness_.name(r, transport.host(r));
  }

  /// The exit code that the head gives, or nothing where another job follows.
  std::optional<int> run() {
    attempt([&] { transport_.send(0, Tag::kHello, wire::encode(setup_.open())); });
    liveness_.watch(0, Liveness::Clock::now());
    while (!ended()) {
      if (!step()) rest();
    }
    return code_;
  }

 private:
  /// Runs `work`; a fault is told to the head, after which this rank only waits for the end.
  template <class Work>
  void attempt(Work work) {
    if (failed_) return;
    wire::Failure failure;
    try {
      return work();
    } catch (const Error& e) {
      failure = {static_cast<int>(e.code()), e.what()};
    } catch (const std::bad_alloc&) {
      failure = {static_cast<int>(ExitCode::kModel), "out of memory; lower -c or give this rank fewer layers"};
    } catch (const std::exception& e) {
      failure = {static_cast<int>(ExitCode::kCluster), e.what()};
    }
    failed_ = true;
    transport_.send(0, Tag::kFailure, wire::encode(failure));
  }

  bool ended() const { return code_ || next_; }

  bool step() {
    bool anything = false;
    while (!ended()) {  // what comes after is no longer for the worker
      auto message = transport_.receive();
      if (!message) break;
      dispatch(std::move(*message));
      anything = true;
    }
    if (ended()) return true;
    if (setup_.launcher_gone && *setup_.launcher_gone)
      attempt([] { throw ClusterError("the launcher's daemon on this machine has died, which ends the job"); });
    if (stage()) attempt([&] { anything |= drafter_ ? drafter_->advance() : stage_->advance(); });
    send_heartbeats();
    if (anything) idle_.reset();
    return anything;
  }

  void send_heartbeats() {
    const bool loading = stage() && !told_loaded_;
    const bool now_loaded = loading && stage()->loaded();
    const auto now = Liveness::Clock::now();
    if (!liveness_.due(now, loading) && !now_loaded) return;
    told_loaded_ |= now_loaded;
    transport_.send(0, Tag::kHeartbeat, wire::encode(stage() ? stage()->heartbeat() : wire::Heartbeat{}));
    if (liveness_.suspicious(now)) {  // is it the head, or this rank that is cut off?
      for (int r = 1; r < transport_.size(); ++r) {
        if (r != transport_.rank()) transport_.send(r, Tag::kHeartbeat, wire::encode(wire::Heartbeat{}));
      }
    }
    // Later ranks give earlier ones the time to say it first: one line for the job.
    if (setup_.woken && setup_.woken->exchange(false)) liveness_.hold_back(now);
    const auto silent = liveness_.silent(now, kGrace * (transport_.rank() - 1) + (met_head_ ? kNone : kPreparations));
    if (!silent) return;
    if (!spared_) throw Silence(liveness_.silence_text(*silent, transport_.rank()));
    liveness_.unwatch(0);  // it goes on without this rank, which is ended with the job
    if (setup_.head_unheard) setup_.head_unheard();
  }

  /// Whether the job goes on without this rank where that is lost.
  void spare(bool spared) {
    spared_ = spared;
    if (setup_.dispensable) setup_.dispensable(spared);
  }

  void dispatch(Message message) {
    liveness_.heard(message.from, Liveness::Clock::now());
    met_head_ |= message.from == 0;
    switch (message.tag) {
      case Tag::kStart:
        attempt([&] { start(wire::decode_start(message.bytes)); });
        break;
      case Tag::kStop:
        code_ = wire::decode_stop(message.bytes);
        if (spared_) spare(false);  // all part together
        transport_.send(0, Tag::kReport, wire::encode(report()));
        break;
      case Tag::kAsk:
        transport_.send(0, Tag::kReport, wire::encode(report()));
        break;
      case Tag::kNextJob:
        next_ = !failed_;  // a failed rank waits for the stop
        break;
      case Tag::kHeartbeat:
        break;  // heard is all
      default:
        attempt([&] { take(std::move(message)); });
    }
  }

  /// The stream comes from the stage before, the plan from the head: the stream may be here first and is kept until then.
  void take(Message message) {
    // The head goes on without a drafter once it has begun to ask it.
    if (drafts_ && !spared_ && (message.tag == Tag::kCommit || message.tag == channel_.record)) spare(true);
    if (!stage()) {
      early_.push_back(std::move(message));
    } else if (message.tag == channel_.record) {
      stage()->on_record(std::move(message.bytes));
    } else if (message.tag == channel_.activations) {
      stage()->on_activations(std::move(message.bytes));
    } else if (message.tag == channel_.cancel) {
      stage()->on_cancel(wire::decode_cancel(message.bytes));
    } else if (drafter_ && message.tag == Tag::kCommit) {
      drafter_->on_commit(wire::decode_commit(message.bytes));
    } else if (drafter_) {
      drafter_->pipeline().on_message(std::move(message));
    } else {
      throw ClusterError("a message came that this rank does not take; do all ranks run the same yamata?");
    }
  }

  void start(const wire::Start& plan) {
    const int rank = transport_.rank();
    for (const wire::PipelinePlan& pipeline : plan.pipelines) {
      const auto stage = pipeline.stage_of(rank);
      if (!stage) continue;
      channel_ = pipeline.model == 0 ? kTargetChannel : kDraftChannel;
      drafts_ = pipeline.model > 0;
      if (drafts_ && *stage == 0) {
        drafter_ = make_drafter(transport_, plan, pipeline, setup_.make_stage);
      } else {
        model_ = setup_.make_stage(pipeline, *stage, plan.cache_types);
        stage_ = std::make_unique<Stage>(*model_, transport_, PipelineRanks{channel_, pipeline.ranks});
      }
    }
    if (!stage()) throw ClusterError("the plan has no place for this rank");
    // On one machine the clock is the same; else this is right but for the message's way.
    clock_offset_us_ = plan.head_host == setup_.host ? 0 : plan.head_time_us - Trace::now_us();
    if (plan.trace) stage()->trace().enable();
    stage()->load();
    for (Message& message : early_) take(std::move(message));
    early_.clear();
  }

  Stage* stage() { return drafter_ ? &drafter_->pipeline().stage() : stage_.get(); }

  void rest() {
    const bool computing = stage() && !failed_ && stage()->activity() == wire::Activity::kComputing;
    computing ? idle_.rest_computing(transport_) : idle_.rest(transport_);
  }

  wire::Report report() {
    wire::Report report = report_of_rank(transport_, idle_, sent_before_, setup_.host, drafts_ ? "drafter" : "stage");
    if (setup_.mapped_bytes) report.mapped_bytes = setup_.mapped_bytes();
    if (stage()) {
      stage()->describe(report);
      report.events = stage()->trace().shifted(clock_offset_us_);
    }
    return report;
  }

  Transport& transport_;
  const WorkerSetup& setup_;
  Liveness liveness_;
  Idle idle_;
  const std::uint64_t sent_before_;  // bytes, by the jobs before
  Channel channel_ = kTargetChannel;
  std::unique_ptr<StageModel> model_;
  std::unique_ptr<Stage> stage_;
  std::unique_ptr<Drafter> drafter_;
  std::vector<Message> early_;
  std::optional<int> code_;
  bool drafts_ = false, failed_ = false, told_loaded_ = false, next_ = false, spared_ = false, met_head_ = false;
  std::int64_t clock_offset_us_ = 0;
};

}  // namespace

int run_worker(Transport& transport, const WorkerSetup& setup) {
  try {
    while (true) {
      if (const auto code = Worker(transport, setup).run()) return *code;
    }
  } catch (const Silence& e) {
    fmt::print(stderr, "yamata: {}\n", e.what());
    hush(transport, static_cast<int>(e.code()));
    transport.abort(static_cast<int>(e.code()));
    return static_cast<int>(e.code());
  } catch (const Error& e) {
    fmt::print(stderr, "yamata: rank {} ({}): {}\n", transport.rank(), setup.host, e.what());
    transport.abort(static_cast<int>(e.code()));
    return static_cast<int>(e.code());
  }
}

}  // namespace yamata
