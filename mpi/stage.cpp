#include "mpi/stage.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "node/error.hpp"

namespace yamata {

Stage::Stage(StageModel& model, Transport& transport, int stages)
    : model_(model), transport_(transport), next_(transport.rank() + 1 < stages ? transport.rank() + 1 : -1) {}

Stage::~Stage() {
  if (!running_ && !loading_) return;
  stop_ = true;
  try {
    while (!model_.unit().wait_for(std::chrono::milliseconds(100))) {
    }
  } catch (...) {  // a fault of a computation whose result nobody wants any more
  }
}

void Stage::load() {
  loading_ = true;
  load_began_ = model_.unit().progress();
  model_.load(&stop_);
}

wire::Heartbeat Stage::heartbeat() const {
  // Runs ended and operations ended: either grows while this stage is alive.
  const std::uint64_t operations = model_.unit().progress();
  std::uint16_t permille = loaded_ ? 1000 : 0;
  if (loading_) {
    const std::uint64_t steps = std::max<std::uint64_t>(1, model_.load_steps());
    permille = static_cast<std::uint16_t>(std::min<std::uint64_t>(999, (operations - load_began_) * 1000 / steps));
  }
  return {runs_ended_ + operations, activity(), permille};
}

void Stage::on_record(wire::Bytes bytes) {
  records_.push_back(wire::decode_record(bytes));
  if (next_ >= 0) transport_.send(next_, Tag::kRecord, std::move(bytes));
}

void Stage::on_activations(wire::Bytes bytes) { activations_.push_back(std::move(bytes)); }

wire::Activity Stage::activity() const {
  if (running_ || loading_) return wire::Activity::kComputing;
  return records_.empty() ? wire::Activity::kIdle : wire::Activity::kAwaitingActivations;
}

bool Stage::advance() {
  bool anything = false;
  if (loading_ && model_.unit().finished()) {
    model_.unit().wait_for(std::chrono::microseconds(0));
    loading_ = false;
    loaded_ = anything = true;
    load_seconds_ = model_.unit().busy_seconds();
  }
  if (running_ && model_.unit().finished()) {
    finish_run();
    anything = true;
  }
  while (loaded_ && !running_ && begin_next()) anything = true;
  return anything;
}

bool Stage::begin_next() {
  if (records_.empty()) return false;
  wire::Record& record = records_.front();
  if (record.kind != wire::RecordKind::kRun) {
    apply(record);
    records_.pop_front();
    return true;
  }
  if (!model_.first() && activations_.empty()) return false;
  running_ = std::move(record);
  records_.pop_front();
  StageBatch batch{running_->tokens, {}, running_->placements, running_->wanted};
  if (!model_.first()) {
    const wire::Rows rows = wire::decode_rows(activations_.front());
    const auto floats = running_->placements.size() * static_cast<std::size_t>(model_.hyperparameters().dim);
    if (rows.run != running_->run || rows.values.size() != floats) {
      throw ClusterError(fmt::format("activations of run {} came where those of run {} were due", rows.run, running_->run));
    }
    batch.activations = rows.values;
  }
  model_.start(batch, &stop_);  // copies the activations
  if (!model_.first()) activations_.pop_front();
  return true;
}

void Stage::apply(const wire::Record& record) {
  CellTable& cells = model_.cells();
  switch (record.kind) {
    case wire::RecordKind::kCopy: return cells.copy(record.from, record.sequences, record.positions);
    case wire::RecordKind::kKeep: return cells.keep(record.sequences, record.positions);
    case wire::RecordKind::kRemove: return cells.remove(record.sequences, record.positions);
    case wire::RecordKind::kClear: return cells.clear();
    case wire::RecordKind::kRun: break;
  }
  throw ClusterError("a record of unknown kind arrived; do all ranks run the same yamata?");
}

void Stage::finish_run() {
  model_.unit().wait_for(std::chrono::microseconds(0));  // a fault while computing is thrown here
  const std::uint64_t run = running_->run;
  running_.reset();
  ++runs_ended_;
  if (next_ >= 0) {
    transport_.send(next_, Tag::kActivations, wire::encode(wire::Rows{run, model_.activations()}));
  } else {
    transport_.send(0, Tag::kLogits, wire::encode(wire::Rows{run, model_.logits()}));
  }
}

}  // namespace yamata
