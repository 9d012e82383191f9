#include "mpi/worker.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "mpi/idle.hpp"
#include "mpi/liveness.hpp"
#include "mpi/stage.hpp"
#include "node/error.hpp"
#include "node/topology.hpp"

namespace yamata {
namespace {

class Worker {
 public:
  Worker(Transport& transport, const WorkerSetup& setup)
      : transport_(transport), setup_(setup), liveness_(transport.size(), setup.timeout, Liveness::Clock::now()) {
    liveness_.watch(0, Liveness::Clock::now());
  }

  int run() {
    attempt([&] { transport_.send(0, Tag::kHello, wire::encode(setup_.open())); });
    while (!code_) {
      if (!step()) rest();
    }
    while (transport_.pending_sends() > 0) {
      transport_.receive();
      std::this_thread::sleep_for(idle_.next());
    }
    return *code_;
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

  bool step() {
    bool anything = false;
    while (auto message = transport_.receive()) {
      dispatch(std::move(*message));
      anything = true;
    }
    if (stage_) {
      attempt([&] { anything |= stage_->advance(); });
    }
    const bool loading = stage_ && !told_loaded_;
    const bool now_loaded = loading && stage_->loaded();
    const auto now = Liveness::Clock::now();
    if (liveness_.due(now, loading) || now_loaded) {
      told_loaded_ |= now_loaded;
      transport_.send(0, Tag::kHeartbeat, wire::encode(stage_ ? stage_->heartbeat() : wire::Heartbeat{}));
      // Later ranks give earlier ones the time to say it first: one line for the job.
      liveness_.check(now, std::chrono::milliseconds(500 * transport_.rank()));
    }
    if (anything) idle_.reset();
    return anything;
  }

  void dispatch(Message message) {
    if (message.from == 0) liveness_.heard(0, Liveness::Clock::now());
    switch (message.tag) {
      case Tag::kStart: attempt([&] { start(wire::decode_start(message.bytes)); }); break;
      case Tag::kRecord:
      case Tag::kActivations: attempt([&] { take(std::move(message)); }); break;
      case Tag::kStop:
        code_ = wire::decode_stop(message.bytes);
        transport_.send(0, Tag::kReport, wire::encode(report()));
        break;
      default: break;  // heartbeats: heard is all
    }
  }

  /// The stream comes from the stage before, the plan from the head: the stream may be here first and is kept until then.
  void take(Message message) {
    if (!stage_) {
      early_.push_back(std::move(message));
    } else if (message.tag == Tag::kRecord) {
      stage_->on_record(std::move(message.bytes));
    } else {
      stage_->on_activations(std::move(message.bytes));
    }
  }

  void start(const wire::Start& plan) {
    const gguf::File& file = setup_.file();
    const ContextOptions context{plan.cells, plan.sequences, plan.cache_type};
    unit_ = &setup_.unit();
    model_ = std::make_unique<StageModel>(file, Hyperparameters::read(file), plan.layers.at(static_cast<std::size_t>(transport_.rank())), context, *unit_);
    stage_ = std::make_unique<Stage>(*model_, transport_, transport_.size());
    stage_->load();
    for (Message& message : early_) take(std::move(message));
    early_.clear();
  }

  void rest() {
    const auto nap = idle_.next();
    if (stage_ && !failed_ && stage_->activity() == wire::Activity::kComputing) {
      attempt([&] { unit_->wait_for(nap); });
      return;
    }
    const auto began = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(nap);
    wait_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }

  wire::Report report() const {
    wire::Report report{setup_.host, "stage", "", "cpu", {}, 0, wait_s_, transport_.bytes_sent(), own_memory_bytes(), 0};
    if (model_) {
      report.layers = model_->layers();
      report.isa = unit_->isa();
      report.busy_s = stage_->busy_seconds();
      report.mapped_bytes = setup_.file().resident_bytes();
    }
    return report;
  }

  Transport& transport_;
  const WorkerSetup& setup_;
  Liveness liveness_;
  Idle idle_;
  ComputeUnit* unit_ = nullptr;
  std::unique_ptr<StageModel> model_;
  std::unique_ptr<Stage> stage_;
  std::vector<Message> early_;
  std::optional<int> code_;
  bool failed_ = false, told_loaded_ = false;
  double wait_s_ = 0;
};

}  // namespace

int run_worker(Transport& transport, const WorkerSetup& setup) {
  try {
    return Worker(transport, setup).run();
  } catch (const Error& e) {
    fmt::print(stderr, "yamata: rank {} ({}): {}\n", transport.rank(), setup.host, e.what());
    transport.abort(static_cast<int>(e.code()));
    return static_cast<int>(e.code());
  }
}

}  // namespace yamata
