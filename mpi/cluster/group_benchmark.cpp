#include "mpi/cluster/group_benchmark.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "node/clock.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr int kWarmUp = 1;  // runs that do not count, because they touch memory for the first time

/// Occasional longer times count, as they will later; but a single stall is left out, since it would count far more than its share.
double mean_but_the_longest(std::span<const double> times) {
  const double sum = std::accumulate(times.begin(), times.end(), 0.0);
  if (times.size() < 2) return sum;
  return (sum - std::ranges::max(times)) / static_cast<double>(times.size() - 1);
}

GroupMember member_of(const wire::BenchmarkRequest& wanted, int rank, GroupExchange* exchange) {
  const auto place = std::find(wanted.ranks.begin(), wanted.ranks.end(), rank) - wanted.ranks.begin();
  return {wanted.shares, static_cast<int>(place), exchange};
}

}  // namespace

SharedLayer::SharedLayer(Transport& transport, const wire::BenchmarkRequest& wanted, const LayerFactory& make_layer)
    : exchange_(transport.join_group(wanted.ranks, 0)), wanted_(wanted.runs + kWarmUp) {
  exchange_->keep_times();
  layer_ = make_layer({wanted.layer, wanted.layer + wanted.layers}, member_of(wanted, transport.rank(), exchange_.get()));
  activations_.assign(static_cast<std::size_t>(layer_->input_width()), 1.0f);
  layer_->load(nullptr);
}

SharedLayer::~SharedLayer() {
  exchange_->abandon();
  while (layer_ && !layer_->unit().wait_for(std::chrono::milliseconds(10))) {
  }
}

bool SharedLayer::advance() {
  if (finished() || !layer_->unit().wait_for(std::chrono::microseconds(0))) return false;
  if (runs_ >= 0) end_run();
  if (++runs_ < wanted_) begin_run();
  return true;
}

void SharedLayer::begin_run() {
  static const std::vector<std::int32_t> kToken{0};
  static const std::vector<Placement> kPlacement{{.position = 0, .parent = -1, .sequences = {0, 1}}};  // the token replaces the one before
  earlier_ = exchange_->times().size();
  busy_s_ = layer_->unit().busy_seconds();
  layer_->start({kToken, activations_, kPlacement, {}}, nullptr);
}

/// Members load for different times, and begin a run when each learns that the one before is over. So the first exchange of a run does not
/// count with its own time, but with the mean of the others.
void SharedLayer::end_run() {
  const std::vector<ExchangeTime> all = exchange_->times();
  const auto exchanges = std::span(all).subspan(earlier_);
  if (layer_->was_stopped() || exchanges.size() < 2)
    throw ClusterError("a layer that ranks share was left before its end; do all ranks run the same yamata?");
  if (runs_ < kWarmUp) return;
  const auto length_s = [](const ExchangeTime& exchange) { return Clock::seconds(exchange.end - exchange.begin); };
  double exchanged_s = 0;
  for (const ExchangeTime& exchange : exchanges.subspan(1)) exchanged_s += length_s(exchange);
  exchange_s_.push_back(exchanged_s / static_cast<double>(exchanges.size() - 1));
  computing_s_.push_back(layer_->unit().busy_seconds() - busy_s_ - length_s(exchanges.front()) - exchanged_s);
}

wire::BenchmarkResult SharedLayer::result() const { return {mean_but_the_longest(computing_s_), mean_but_the_longest(exchange_s_)}; }

GroupBenchmark::GroupBenchmark(Transport& transport, NextGroup next, LayerFactory make_layer)
    : transport_(transport), next_(std::move(next)), make_layer_(std::move(make_layer)), group_(next_(times_)) {}

void GroupBenchmark::ask() {
  for (const int rank : group_->ranks) {
    if (rank != transport_.rank()) transport_.send(rank, Tag::kBenchmark, wire::encode(*group_));
  }
  own_ = std::make_unique<SharedLayer>(transport_, *group_, make_layer_);
}

void GroupBenchmark::on_answer(int from, const wire::BenchmarkResult& answer) {
  if (!own_ || std::ranges::count(group_->ranks, from) == 0)
    throw ClusterError("a rank has shared a layer that nobody asked it to; do all ranks run the same yamata?");
  answers_.push_back(answer);
}

bool GroupBenchmark::advance() {
  if (finished()) return false;
  if (!own_) {
    ask();
    return true;
  }
  bool anything = own_->advance();
  if (anything && own_->finished()) answers_.push_back(own_->result());
  const std::vector<int>& ranks = group_->ranks;
  if (answers_.size() < ranks.size()) return anything;
  GroupTime time{.ranks = ranks};
  for (const wire::BenchmarkResult& answer : answers_) {
    const double members = static_cast<double>(ranks.size());
    time.computing_s += answer.computing_s / members;
    time.exchange_s += answer.exchange_s / members;
  }
  times_.push_back(std::move(time));
  answers_.clear();
  own_.reset();
  group_ = next_(times_);
  return true;
}

}  // namespace yamata
