#include "mpi/pipeline/stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mpi/protocol/validate.hpp"
#include "node/error.hpp"

namespace yamata {

Stage::Stage(StageModel& model, Transport& transport, const PipelineRanks& ranks)
    : model_(model), transport_(transport), ranks_(ranks), last_(ranks.last(transport.rank())) {
  model_.unit().when_finished([&transport] { transport.wake(); });
}

Stage::~Stage() {
  stop_ = running_ || loading_;
  if (stop_) model_.abandon_group();
  try {
    while (stop_ && !model_.unit().wait_for(std::chrono::milliseconds(100))) {
    }
  } catch (...) {  // an error in a computation whose result is not needed any more
  }
  model_.unit().when_finished(nullptr);
}

void Stage::load() {
  if (!model_.unit().claim()) {
    load_waits_ = true;
    return;
  }
  load_waits_ = false;
  loading_ = true;
  load_began_ = model_.unit().progress();
  model_.load(&stop_);
}

wire::Heartbeat Stage::heartbeat() const {
  // The sum of finished runs and operations: it grows while this stage is alive.
  const std::uint64_t operations = model_.unit().progress();
  std::uint16_t permille = loaded_ ? 1000 : 0;
  if (loading_) {
    const std::uint64_t steps = std::max<std::uint64_t>(1, model_.load_steps());
    permille = static_cast<std::uint16_t>(std::min<std::uint64_t>(999, (operations - load_began_) * 1000 / steps));
  }
  const int awaited = model_.awaited();
  return {ended_ + operations, activity(), permille, awaited < 0 ? -1 : ranks_.group(transport_.rank())[static_cast<std::size_t>(awaited)]};
}

void Stage::on_record(wire::Bytes bytes) {
  wire::Record record = wire::decode_record(bytes);
  const CellTable& cells = model_.cells();
  wire::validate(
      record, {.cells = cells.cell_count(), .sequences = cells.sequence_count(), .last_run = last_run_, .features = model_.features_read()},
      before());
  if (record.has_run()) last_run_ = record.run;
  records_.push_back(std::move(record));
  const int own = transport_.rank();
  if (!ranks_.leads(own)) return;
  if (own == ranks_.first()) send_all(ranks_.group(own), ranks_.channel.record, bytes);
  if (!last_) send_all(ranks_.next(own), ranks_.channel.record, bytes);
}

/// Returns the number of ranks to which it was sent.
std::size_t Stage::send_all(const std::vector<int>& ranks, Tag tag, const wire::Bytes& bytes) {
  std::size_t others = 0;
  for (const int rank : ranks) {
    if (rank == transport_.rank()) continue;
    transport_.send(rank, tag, bytes);
    ++others;
  }
  return others;
}

void Stage::on_activations(wire::Bytes bytes) { activations_.push_back(std::move(bytes)); }

void Stage::on_cancel(const wire::Cancel& cancel) {
  wire::validate_cancel(cancel.runs, ranks_.first());
  wire::Cancel rest{.runs = {}, .route = cancel.route, .job = cancel.job};
  for (const std::uint64_t run : cancel.runs) {
    trace_.mark(TraceEvent::Kind::kCancel, run, 0);
    if (run <= ended_) continue;  // too late: the result has been sent
    cancelled_.insert(run);
    rest.runs.push_back(run);
    if (running_ && running_->record.run == run) stop_ = true;
  }
  if (cancel.route == CancelRoute::kBackward && !rest.runs.empty()) pass_back(rest);
}

/// To the other ranks of this stage, and to the leader of the stage before. The first stage's leader knows already. Runs that have ended
/// here have ended there, too.
void Stage::pass_back(const wire::Cancel& cancel) {
  const int own = transport_.rank();
  if (!ranks_.leads(own) || own == ranks_.first()) return;
  send_all(ranks_.group(own), ranks_.channel.cancel, wire::encode(wire::Cancel{cancel.runs, CancelRoute::kDirect, cancel.job}));
  if (ranks_.before(own) != ranks_.first()) transport_.send(ranks_.before(own), ranks_.channel.cancel, wire::encode(cancel));
}

wire::Activity Stage::activity() const {
  if (running_ || loading_) return wire::Activity::kComputing;
  return records_.empty() ? wire::Activity::kIdle : wire::Activity::kAwaitingActivations;
}

bool Stage::advance() {
  bool anything = false;
  if (load_waits_) load();
  if (loading_ && model_.unit().finished()) {
    model_.unit().wait_for(std::chrono::microseconds(0));  // throws the computation's error, if there was one
    model_.unit().release();
    loading_ = false;
    loaded_ = anything = true;
  }
  if (running_ && model_.unit().finished()) {
    finish_run();
    anything = true;
  }
  while (loaded_ && !running_ && begin_next()) anything = true;
  return anything;
}

bool Stage::skips(const wire::Record& record) const {
  // The input from the stage before is the same for all ranks of a group. But one member may know of a cancelled run before the others:
  // then it leaves the run at the first exchange.
  if (!model_.first() && wire::decode_rows(activations_.front()).skipped) return true;
  return model_.members() == 1 && cancelled_.contains(record.run);
}

bool Stage::begin_next() {
  if (records_.empty()) return false;
  if (records_.front().has_run() && !model_.first() && activations_.empty()) return false;
  if (records_.front().has_run() && !model_.first())
    wire::validate_activations(wire::decode_rows(activations_.front()), records_.front(), {model_.input_width(), model_.width()},
                               model_.layers().begin, before());
  // The unit may be in use by another stage: then nothing in this record happens before it is free.
  const bool computes = records_.front().has_run() && !skips(records_.front());
  if (computes && !model_.unit().claim()) return false;
  wire::Record record = std::move(records_.front());
  records_.pop_front();
  for (const CacheOperation& operation : record.operations) apply(operation, model_.cells());
  if (!record.has_run()) return true;
  if (static_cast<std::size_t>(model_.cells().free_cells()) < record.tokens.size())
    throw ClusterError(fmt::format("rank {} sent a run of more tokens than the cache has free cells", before()));
  if (!computes) {
    model_.cells().place(record.placements, skipped_cells_);
    if (!model_.first()) activations_.pop_front();
    count_skipped(record);
    trace_.mark(TraceEvent::Kind::kSkip, record.run, static_cast<std::int32_t>(record.tokens.size()));
    ended_ = record.run;
    send_skipped(record.run);
    cancelled_.erase(cancelled_.begin(), cancelled_.upper_bound(ended_));
    return true;
  }
  compute(std::move(record));
  return true;
}

void Stage::compute(wire::Record record) {
  stop_ = cancelled_.contains(record.run);
  running_ = Running{std::move(record), Clock::now(), {}, model_.unit().copied_weights()};
  const wire::Record& r = running_->record;
  StageBatch batch{.tokens = r.tokens,
                   .activations = {},
                   .placements = r.placements,
                   .logit_rows = r.logit_rows,
                   .likely_row = r.likely_row,
                   .feature_rows = r.feature_rows,
                   .features = r.features,
                   .feature_layers = r.feature_layers,
                   .only_highest = r.best == 1 && !r.sums && model_.vocabulary() > 2};
  if (!model_.first()) {
    const wire::Rows rows = wire::decode_rows(activations_.front());
    batch.activations = rows.values;
    running_->features.assign(rows.features.begin(), rows.features.end());
  }
  model_.start(batch, &stop_);  // copies the activations
  if (!model_.first()) activations_.pop_front();
}

void Stage::finish_run() {
  model_.unit().wait_for(std::chrono::microseconds(0));  // throws the computation's error, if there was one
  const double took = std::chrono::duration<double>(Clock::now() - running_->began).count();
  counters_.busy_s += took;
  ++counters_.runs;
  const CopiedWeights copied = model_.unit().copied_weights();
  counters_.copied.bytes += copied.bytes - running_->copied_before.bytes;
  counters_.copied.wait_s += copied.wait_s - running_->copied_before.wait_s;
  model_.unit().release();
  const std::optional<Running> running = std::exchange(running_, std::nullopt);
  const wire::Record& record = running->record;
  ended_ = record.run;
  const bool skipped = model_.members() > 1 ? model_.was_stopped() : cancelled_.contains(record.run);
  trace_.add({skipped ? TraceEvent::Kind::kSkip : TraceEvent::Kind::kRun, ranks_.channel.record != kTargetChannel.record,
              static_cast<std::int32_t>(record.tokens.size()), record.run, Trace::microseconds(running->began), Trace::now_us()});
  if (skipped) count_skipped(record);
  if (!skipped) learn_cost(record, took);
  skipped ? send_skipped(record.run) : send_result(*running);
  cancelled_.erase(cancelled_.begin(), cancelled_.upper_bound(ended_));
}

/// Of a wide run, most rows are either tokens whose logits are wanted, or parts of prompts, which take less time.
void Stage::learn_cost(const wire::Record& record, double seconds) {
  if (counters_.runs == 1) return;  // it has filled caches with code and weights, so its time is not typical
  const auto rows = static_cast<int>(record.tokens.size()), wanted = static_cast<int>(record.logit_rows.size());
  const bool prompt = 2 * wanted < rows;
  if (rows <= StepCost::kOfAText || !prompt) cost_.ran(rows, seconds);
  if (rows <= StepCost::kOfAText || !prompt) return;
  constexpr double kForget = 0.7;
  const bool beside_texts = wanted > 1;  // the last part of a prompt has one, too
  const double row_s = beside_texts ? std::max(0.0, seconds - cost_.run_s(wanted)) / (rows - wanted) : seconds / rows;
  prompt_row_s_ = prompt_row_s_ > 0 ? kForget * prompt_row_s_ + (1 - kForget) * row_s : row_s;
}

void Stage::describe(wire::Report& report) const {
  report.layers = model_.layers();
  report.device = model_.device();
  report.isa = model_.unit().isa();
  report.threads = model_.unit().threads();
  report.busy_s += counters_.busy_s;
  report.share = model_.share();
  report.exchange_s = model_.exchange_s();
  report.copy_wait_s += counters_.copied.wait_s;
  report.copied_bytes += counters_.copied.bytes;
  report.bytes_sent += model_.exchange_bytes();
  report.feature_bytes += counters_.feature_bytes;
  report.runs = counters_.runs;
  report.runs_skipped = counters_.skipped;
  report.tokens_skipped = counters_.tokens_skipped;
  report.run_s = cost_.measured_s();
}

void Stage::count_skipped(const wire::Record& record) {
  ++counters_.skipped;
  counters_.tokens_skipped += record.tokens.size();
}

void Stage::send_skipped(std::uint64_t run) { send({.run = run, .skipped = true, .values = {}}); }

/// Sends activations or logits, with the requested features of all layers so far.
void Stage::send_result(const Running& running) {
  std::vector<float> features = running.features;
  features.insert(features.end(), model_.features().begin(), model_.features().end());
  if (!ranks_.leads(transport_.rank())) features.clear();
  if (last_) return send_logits(running.record, features);
  send({.run = running.record.run, .values = model_.activations(), .features = features});
}

/// Sends only the best logits if no more are requested; these fit into one network packet.
void Stage::send_logits(const wire::Record& record, std::span<const float> features) {
  const wire::ResultLimits limits{.best = record.best, .vocabulary = model_.vocabulary()};
  wire::Rows rows{.run = record.run, .values = {}, .features = features};
  const BestLogits best = limits.all_logits() ? BestLogits{} : best_of_run(static_cast<std::size_t>(record.best));
  if (best.tokens.empty()) {
    if (limits.all_logits()) rows.values = model_.logits();
    return send(rows);
  }
  std::vector<float> sums;
  if (record.sums) {
    const std::span<const float> logits = model_.known_logits();
    const std::size_t rows_here = record.logit_rows.size(), columns = logits.size() / rows_here, count = best.values.size() / rows_here;
    for (std::size_t row = 0; columns > 0 && row < rows_here; ++row)
      sums.push_back(log_sum_exp(logits.subspan(row * columns, columns), best.values[row * count]));
  }
  rows.values = best.values;
  rows.tokens = best.tokens;
  rows.vocabulary = static_cast<std::uint32_t>(limits.vocabulary);
  rows.sums = sums;
  send(rows);
}

/// The best logits of each row among the tokens that this rank computes.
BestLogits Stage::best_of_run(std::size_t count) const {
  BestLogits best;
  const Interval here = model_.logit_tokens();
  const std::span<const std::int32_t> known = model_.known_tokens();
  for (const Highest& highest : model_.highest()) {
    best.tokens.push_back(highest.column);
    best.values.push_back(highest.value);
  }
  if (best.tokens.empty()) {
    const bool few = !known.empty() && known.size() < count;
    const std::span<const float> logits = few ? model_.logits() : model_.known_logits();
    const auto columns = known.empty() || few ? static_cast<std::size_t>(here.count()) : known.size();
    if (!logits.empty()) best = best_logits(logits, columns, std::min(count, columns));
    if (few) return best;
  }
  for (std::int32_t& token : best.tokens) {
    if (token >= 0) token = known.empty() ? token + static_cast<std::int32_t>(here.begin) : known[static_cast<std::size_t>(token)];
  }
  return best;
}

/// Each rank of the last stage sends to the pipeline's leader. In other stages, the leader sends to all ranks of the next stage.
void Stage::send(const wire::Rows& rows) {
  const int own = transport_.rank();
  if (last_) {
    if (own != ranks_.first()) counters_.feature_bytes += rows.features.size_bytes();
    return transport_.send(ranks_.first(), ranks_.channel.logits, wire::encode(rows));
  }
  if (!ranks_.leads(own)) return;
  counters_.feature_bytes += rows.features.size_bytes() * send_all(ranks_.next(own), ranks_.channel.activations, wire::encode(rows));
}

}  // namespace yamata
