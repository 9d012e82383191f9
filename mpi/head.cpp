#include "mpi/head.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "mpi/layer_split.hpp"
#include "mpi/memory_plan.hpp"
#include "node/error.hpp"
#include "node/topology.hpp"

namespace yamata {

Head::Head(Transport& transport, const ClusterOptions& options)
    : transport_(transport), options_(options), liveness_(transport.size(), options.timeout, Liveness::Clock::now()), reports_(static_cast<std::size_t>(transport.size())) {
  for (int r = 1; r < transport.size(); ++r) liveness_.watch(r, Liveness::Clock::now());
}

void Head::start(const wire::Hello& own, const gguf::File& file, const Hyperparameters& h, ComputeUnit& unit) {
  host_ = own.host;
  isa_ = own.isa;
  liveness_.name(0, own.host);
  std::vector<wire::Hello> hellos(static_cast<std::size_t>(transport_.size()));
  hellos[0] = own;
  await_hellos(hellos);
  check_agreement(hellos);

  const wire::Start plan{split_layers(file, h, options_.layer_split, transport_.size()), options_.context.cells, options_.context.sequences,
                         options_.context.cache_type};
  for (const std::string& warning : plan_memory(file, h, plan, hellos, options_.batch)) {
    if (options_.on_warning) options_.on_warning(warning);
  }
  for (int r = 1; r < transport_.size(); ++r) transport_.send(r, Tag::kStart, wire::encode(plan));
  model_ = std::make_unique<StageModel>(file, h, plan.layers[0], options_.context, unit);
  stage_ = std::make_unique<Stage>(*model_, transport_, transport_.size());
  cells_ = std::make_unique<CellTable>(options_.context.cells, options_.context.sequences);
  load(file);
}

void Head::load(const gguf::File& file) {
  file_ = &file;
  loading_ = true;
  stage_->load();
  while (true) {
    const bool heard = pump();
    std::uint64_t sum = own_heartbeat().loaded_permille;
    for (int r = 1; r < transport_.size(); ++r) sum += liveness_.state(r).loaded_permille;
    const auto all = static_cast<std::uint64_t>(transport_.size()) * 1000;
    if (options_.on_loading) options_.on_loading(static_cast<double>(sum) / static_cast<double>(all));
    if (sum == all) break;
    if (!heard) rest();
  }
  loading_ = false;
}

wire::Heartbeat Head::own_heartbeat() const { return stage_ ? stage_->heartbeat() : wire::Heartbeat{}; }

void Head::await_hellos(std::vector<wire::Hello>& hellos) {
  int missing = transport_.size() - 1;
  on_hello_ = [&](int rank, wire::Hello hello) {
    liveness_.name(rank, hello.host);
    hellos[static_cast<std::size_t>(rank)] = std::move(hello);
    --missing;
  };
  while (missing > 0) {
    if (!pump()) rest();
  }
  on_hello_ = nullptr;
}

void Head::check_agreement(const std::vector<wire::Hello>& hellos) const {
  for (std::size_t r = 1; r < hellos.size(); ++r) {
    const wire::Hello& a = hellos[0];
    const wire::Hello& b = hellos[r];
    if (a.protocol != b.protocol || a.version != b.version) {
      throw ClusterError(fmt::format("rank {} ({}) runs another version of yamata ({}) than rank 0 ({}); install the same one everywhere", r, b.host,
                                     b.version.empty() ? "unknown" : b.version, a.version));
    }
    if (a.fingerprint != b.fingerprint) {
      throw ModelError(fmt::format("rank {} ({}) has another model file at this path than rank 0 ({}); copy the same file to every machine", r, b.host, a.host));
    }
  }
}

std::uint64_t Head::submit(wire::Record run) {
  run.kind = wire::RecordKind::kRun;
  run.run = submitted_ + 1;
  if (static_cast<std::int32_t>(run.tokens.size()) > cells_->free_cells()) {
    throw UsageError(fmt::format("the context of {} tokens is full; raise -c or ask for fewer tokens", cells_->cell_count()));
  }
  cells_->place(run.placements, batch_cells_);
  ++submitted_;
  stage_->on_record(wire::encode(run));
  pump();
  return submitted_;
}

void Head::operate(const wire::Record& operation) {
  switch (operation.kind) {
    case wire::RecordKind::kCopy: cells_->copy(operation.from, operation.sequences, operation.positions); break;
    case wire::RecordKind::kKeep: cells_->keep(operation.sequences, operation.positions); break;
    case wire::RecordKind::kRemove: cells_->remove(operation.sequences, operation.positions); break;
    case wire::RecordKind::kClear: cells_->clear(); break;
    case wire::RecordKind::kRun: throw std::logic_error("a run is submitted, not operated");
  }
  stage_->on_record(wire::encode(operation));
  pump();
}

std::vector<float> Head::wait_logits() {
  if (outstanding() == 0) throw std::logic_error("no run is out");
  while (logits_.empty()) {
    if (!pump()) rest();
  }
  const wire::Bytes bytes = std::move(logits_.front());
  logits_.pop_front();
  const wire::Rows rows = wire::decode_rows(bytes);
  if (rows.run != ++completed_) throw ClusterError(fmt::format("logits of run {} came where those of run {} were due", rows.run, completed_));
  return {rows.values.begin(), rows.values.end()};
}

bool Head::pump() {
  bool anything = false;
  while (auto message = transport_.receive()) {
    dispatch(std::move(*message));
    anything = true;
  }
  if (stage_ && stage_->advance()) anything = true;
  if (options_.interrupted && *options_.interrupted && !stopped_) throw Interrupted{};
  if (transport_.size() > 1) send_heartbeats();
  if (anything) idle_.reset();
  return anything;
}

void Head::send_heartbeats() {
  const auto now = Liveness::Clock::now();
  if (!liveness_.due(now)) return;
  const wire::Heartbeat own = own_heartbeat();
  for (int r = 1; r < transport_.size(); ++r) transport_.send(r, Tag::kHeartbeat, wire::encode(own));
  liveness_.check(now);
  liveness_.check_progress(now, loading_ || outstanding() > 0, own);
}

void Head::dispatch(Message message) {
  if (message.from != 0) liveness_.heard(message.from, Liveness::Clock::now());
  switch (message.tag) {
    case Tag::kHello:
      if (on_hello_) on_hello_(message.from, wire::decode_hello(message.bytes));
      break;
    case Tag::kLogits: logits_.push_back(std::move(message.bytes)); break;
    case Tag::kHeartbeat: liveness_.tell(message.from, wire::decode_heartbeat(message.bytes)); break;
    case Tag::kReport:
      reports_[static_cast<std::size_t>(message.from)] = wire::decode_report(message.bytes);
      liveness_.unwatch(message.from);
      break;
    case Tag::kFailure: {
      const wire::Failure failure = wire::decode_failure(message.bytes);
      if (stopped_) break;
      throw Error(static_cast<ExitCode>(failure.code), fmt::format("rank {}{}: {}", message.from, liveness_.host_suffix(message.from), failure.text));
    }
    default: throw ClusterError(fmt::format("rank {} sent the head a message it does not take", message.from));
  }
}

void Head::rest() {
  const auto nap = idle_.next();
  const auto began = std::chrono::steady_clock::now();
  const bool computing = stage_ && stage_->activity() == wire::Activity::kComputing;
  if (computing) {
    // With nobody to hear from, only the end of the computation matters.
    model_->unit().wait_for(transport_.size() == 1 ? std::chrono::milliseconds(50) : nap);
    return;
  }
  std::this_thread::sleep_for(nap);
  wait_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

wire::Report Head::own_report() const {
  wire::Report report{host_, "head", isa_, "cpu", {}, 0, wait_s_, transport_.bytes_sent(), own_memory_bytes(), file_ ? file_->resident_bytes() : 0};
  if (model_) {
    report.layers = model_->layers();
    report.busy_s = stage_->busy_seconds();
  }
  return report;
}

std::vector<wire::Report> Head::stop(int code) {
  if (stopped_) return {};
  stopped_ = true;
  constexpr auto kPatience = std::chrono::seconds(5);
  for (int r = 1; r < transport_.size(); ++r) transport_.send(r, Tag::kStop, wire::encode_stop(code));
  reports_[0] = own_report();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const auto complete = [&] { return std::all_of(reports_.begin(), reports_.end(), [](const auto& r) { return r.has_value(); }); };
  while (!complete()) {
    while (auto message = transport_.receive()) dispatch(std::move(*message));
    if (stage_) stage_->advance();
    if (std::chrono::steady_clock::now() > deadline) throw ClusterError("not every rank answered the request to stop");
    if (!complete()) std::this_thread::sleep_for(idle_.next());
  }
  std::vector<wire::Report> reports;
  for (auto& report : reports_) reports.push_back(std::move(*report));
  return reports;
}

}  // namespace yamata
