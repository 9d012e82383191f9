#include "mpi/simulation/virtual_cluster.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>

#include "mpi/cluster/head.hpp"
#include "mpi/simulation/ranks.hpp"
#include "mpi/simulation/virtual_requests.hpp"
#include "node/clock.hpp"
#include "node/error.hpp"
#include "src/model/shard.hpp"
#include "src/model/transformer_stage.hpp"

namespace yamata::simulation {
namespace {

constexpr Nanoseconds kLongestRest = 20'000'000;  // as in Idle
constexpr int kMaxRests = 100;                    // of a run, while no event is planned

class Cluster {
 public:
  explicit Cluster(const Scenario& scenario);
  Outcome run();

 private:
  std::vector<RankParts> make_parts();
  void add_target();
  void add_drafters();
  DecodeOptions decode_options() const;
  void took_token(std::size_t request);
  double busy_share(std::size_t rank) const;
  void count_skipped();

  const Scenario& scenario_;
  const std::unique_ptr<SyntheticText> text_;
  std::size_t own_drafters_;  // with ranks of their own
  VirtualNetwork network_;
  Clock::Override clock_;
  std::deque<VirtualTransport> transports_;
  std::deque<VirtualUnit> units_;
  Ranks ranks_;
  std::vector<Nanoseconds> busy_before_;  // per rank, at the time of the first token
  VirtualRequests requests_;
  Outcome outcome_;
};

std::unique_ptr<SyntheticText> make_text(const Scenario& s) {
  if (s.recording) return std::make_unique<RecordedText>(*s.recording, s.text);
  return std::make_unique<SyntheticText>(s.text);
}

std::size_t count_own(const Scenario& s) { return s.draft_on_head ? 0 : s.drafters.size(); }

int slots_of(const Scenario& s) { return s.slots > 0 ? s.slots : s.requests; }

std::int32_t state_inputs(const TableShape& shape, std::int32_t guesses) {
  return static_cast<std::int32_t>(std::min<std::int64_t>(shape.cells, StateCells::enough(guesses, shape.texts.slots)));
}

Cluster::Cluster(const Scenario& scenario)
    : scenario_(scenario),
      text_(make_text(scenario)),
      own_drafters_(count_own(scenario)),
      network_(static_cast<int>(scenario.stages.size() + own_drafters_), scenario.network, scenario.widths, text_->vocabulary()),
      clock_(network_.now()),
      ranks_(make_parts()),
      requests_(*text_, scenario.prompt, scenario.decode.generate,
                request_times(scenario.requests, scenario.requests_per_s, scenario.text.seed), network_.now()) {
  add_target();
  add_drafters();
}

std::vector<RankParts> Cluster::make_parts() {
  std::vector<RankParts> parts;
  for (int r = 0; r < network_.size(); ++r) {
    transports_.emplace_back(network_, r);
    units_.emplace_back(network_, r, scenario_.slowness.at(static_cast<std::size_t>(r)));
    parts.push_back({&transports_.back(), &units_.back()});
  }
  return parts;
}

void Cluster::add_target() {
  const std::vector<int> groups = scenario_.groups.empty() ? std::vector<int>(scenario_.stages.size(), 1) : scenario_.groups;
  const auto stages = static_cast<int>(groups.size());
  TableShape shape;
  shape.stages = stages;
  shape.vocabulary = text_->vocabulary();
  const int slots = slots_of(scenario_);  // so that no text must wait for cells
  shape.cells = slots * (scenario_.decode.context + Engine::kRoomToGrow) + scenario_.decode.guess_cells;
  shape.sequences = slots * scenario_.decode.sequences.end;
  shape.texts = {slots, scenario_.decode.sequences.end};
  if (scenario_.states) shape.state_inputs = state_inputs(shape, scenario_.decode.guess_cells);
  shape.operations = std::max(1, kOperationsPerLayer * scenario_.layers / stages);
  shape.logits = [this](std::uint64_t prefix, std::span<float> logits) { text_->target_logits(prefix, logits); };
  std::vector<TableShape> shapes;
  for (; shape.stage < stages; ++shape.stage) {
    shape.members = groups[static_cast<std::size_t>(shape.stage)];
    const ExchangeCost exchanges = exchange_cost(scenario_, shape.members, stages);
    shape.exchange_ns = exchanges.run;
    shape.exchange_row_ns = exchanges.row;
    for (shape.member = 0; shape.member < shape.members; ++shape.member) {
      shape.one_row_ns = scenario_.stages.at(shapes.size());
      shape.width = scenario_.rank_widths.empty() ? scenario_.width : scenario_.rank_widths.at(shapes.size());
      shapes.push_back(shape);
    }
  }
  ranks_.add_target(shapes);
}

void Cluster::add_drafters() {
  TableShape shape;
  shape.vocabulary = text_->vocabulary();
  shape.cells = scenario_.requests * (scenario_.decode.context + scenario_.draft.credit);
  shape.sequences = scenario_.requests * (scenario_.draft.credit + 1);
  shape.texts = {scenario_.requests, shape.sequences / scenario_.requests};
  if (scenario_.draft_states) shape.state_inputs = state_inputs(shape, 2 * scenario_.requests * scenario_.draft.credit);
  shape.operations = kOperationsPerLayer * 16;
  shape.width = scenario_.draft_width;
  for (std::size_t d = 0; d < scenario_.drafters.size(); ++d) {
    shape.one_row_ns = scenario_.drafters[d];
    shape.logits = [this, d](std::uint64_t prefix, std::span<float> logits) { text_->draft_logits(d, prefix, logits); };
    const int rank = scenario_.draft_on_head ? 0 : static_cast<int>(scenario_.stages.size() + d);
    if (scenario_.draft_heads)
      ranks_.add_draft_heads(rank, shape, {kOutputFeatures}, scenario_.draft, scenario_.decode.batch);
    else
      ranks_.add_drafter(rank, {shape}, scenario_.draft, scenario_.decode.batch);
  }
}

void Cluster::took_token(std::size_t request) {
  if (busy_before_.empty()) {
    for (const VirtualUnit& unit : units_) busy_before_.push_back(unit.busy_until(network_.now()));
  }
  const auto tokens = static_cast<std::int32_t>(requests_.requests()[request].arrived.size());
  if (request == 0 && tokens == scenario_.drafter_dies_after) ranks_.kill_drafter(0, false);
  network_.spend(scenario_.head);
}

/// Of the time from the first token until the last.
double Cluster::busy_share(std::size_t rank) const {
  Nanoseconds from = network_.now(), to = 0;
  for (const TimedRequest& request : requests_.requests()) {
    from = std::min(from, request.arrived.front());
    to = std::max(to, request.arrived.back());
  }
  if (to == from) return 0;
  return static_cast<double>(units_[rank].busy_until(to) - busy_before_[rank]) / static_cast<double>(to - from);
}

/// What became of cancelled runs.
void Cluster::count_skipped() {
  std::map<std::uint64_t, std::int64_t> decided;
  double latencies_us = 0;
  std::uint64_t latencies = 0;
  for (std::size_t rank = 0; rank < scenario_.stages.size(); ++rank) {
    const Stage& stage = ranks_.target_stage(rank);
    outcome_.runs_skipped += stage.counters().skipped;
    std::map<std::uint64_t, std::int64_t> told;
    for (const TraceEvent& event : stage.trace().shifted(0)) {
      if (event.kind == TraceEvent::Kind::kCancel) told.try_emplace(event.run, event.begin_us);
      if (event.kind != TraceEvent::Kind::kSkip || !told.contains(event.run) || rank == 0) continue;
      latencies_us += static_cast<double>(told[event.run] - decided.at(event.run));
      ++latencies;
    }
    if (rank == 0) decided = std::move(told);
  }
  if (latencies > 0) outcome_.cancel_latency_s = 1e-6 * latencies_us / static_cast<double>(latencies);
}

DecodeOptions Cluster::decode_options() const {
  DecodeOptions decode = scenario_.decode;
  decode.hidden = scenario_.widths.hidden;
  decode.vocabulary = scenario_.widths.vocabulary;
  decode.slots = slots_of(scenario_);
  return decode;
}

Outcome Cluster::run() {
  Engine& engine = ranks_.serve(decode_options());
  requests_.after_token = [this](std::size_t request) { took_token(request); };
  for (const TimedRequest& request : requests_.requests()) {
    if (request.submitted > 0) network_.call(0, request.submitted);
  }
  for (std::size_t rank = 0; rank < scenario_.stages.size(); ++rank) ranks_.target_stage(rank).trace().enable();
  const auto step = [&](std::size_t rank) {
    if (rank == 0) requests_.submit(engine);
    return ranks_.step(rank);
  };
  for (int rests = 0; !requests_.all_ended();) {
    if (scenario_.interrupted && *scenario_.interrupted) throw Interrupted{};
    if (network_.advance(step)) continue;
    if (++rests > kMaxRests) throw ClusterError("the simulated run has come to a halt: nothing is left to happen");
    network_.rest(0, kLongestRest);
  }
  outcome_.tokens = requests_.first_text();
  outcome_.requests = requests_.requests();
  outcome_.arrived = outcome_.requests.front().arrived;
  outcome_.prefill = outcome_.arrived.front();
  for (Nanoseconds& at : outcome_.arrived) at -= outcome_.prefill;
  outcome_.exact = requests_.exact();
  outcome_.counters = requests_.counters();
  outcome_.first_choices = requests_.first_choice_rate();
  count_skipped();
  const std::size_t stages = scenario_.stages.size();
  for (std::size_t r = 0; r < units_.size(); ++r) (r < stages ? outcome_.stage_busy : outcome_.drafter_busy).push_back(busy_share(r));
  return std::move(outcome_);
}

}  // namespace

ExchangeCost exchange_cost(const Scenario& scenario, int members, int stages) {
  if (members == 1) return {};
  const double layers = static_cast<double>(scenario.layers) / stages;
  const double others = (members - 1.0) / members;
  const auto row = static_cast<Nanoseconds>(std::llround(1e9 * scenario.exchange_bytes * layers * others / scenario.network.bytes_per_s));
  const auto all = [&](Nanoseconds exchange) {
    return static_cast<Nanoseconds>(std::llround(kExchangesPerLayer * layers * static_cast<double>(exchange)));
  };
  if (const auto measured = scenario.exchanges.find(members); measured != scenario.exchanges.end())
    return {std::max<Nanoseconds>(0, all(measured->second) - row), row};
  return {all(scenario.network.latency + 2 * (members - 1) * scenario.network.message), row};  // no rank sleeps
}

Outcome simulate(const Scenario& scenario) { return Cluster(scenario).run(); }

}  // namespace yamata::simulation
