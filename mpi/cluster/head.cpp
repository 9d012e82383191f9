#include "mpi/cluster/head.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "node/error.hpp"
#include "node/topology.hpp"

namespace yamata {
namespace {

constexpr auto kDrafterTimeout = std::chrono::seconds(10);  // where the whole draft is waited for, the text stands still as long

}  // namespace

std::unique_ptr<Drafter> make_drafter(Transport& transport, const wire::Start& start, const wire::PipelinePlan& plan,
                                      const StageFactory& make_stage) {
  const PipelineRanks ranks{kDraftChannel, plan.ranks};
  auto pipeline = std::make_unique<Pipeline>(transport, ranks, make_stage(plan, 0, start.cache_types), plan.cells, plan.sequences);
  // The cells beyond the context are for open guesses.
  return std::make_unique<Drafter>(transport, std::move(pipeline), start.draft, plan.cells - start.draft.credit,
                                   SequenceRange{0, plan.sequences}, start.batch);
}

void reassure(Transport& transport) {
  for (int r = 1; r < transport.size(); ++r) transport.send(r, Tag::kHeartbeat, wire::encode(wire::Heartbeat{}));
}

void hush(Transport& transport, int code) {
  constexpr auto kLeave = std::chrono::milliseconds(20);  // sends move on in receive
  for (int r = 1; r < transport.size(); ++r) {
    if (r != transport.rank()) transport.send(r, Tag::kStop, wire::encode_stop(code));
  }
  const auto end = std::chrono::steady_clock::now() + kLeave;
  while (transport.pending_sends() > 0 && std::chrono::steady_clock::now() < end) transport.receive();
}

Head::Head(Transport& transport, ClusterOptions options)
    : transport_(transport),
      options_(std::move(options)),
      liveness_(transport.size(), options_.timeout, Liveness::Clock::now()),
      sent_before_(transport.bytes_sent()),
      reports_(static_cast<std::size_t>(transport.size())),
      lost_(static_cast<std::size_t>(transport.size()), false) {
  for (int r = 0; r < transport.size(); ++r) liveness_.name(r, transport.host(r));
  for (int r = 1; r < transport.size(); ++r) liveness_.watch(r, Liveness::Clock::now());
}

void Head::start(const wire::Hello& own, const std::vector<std::uint64_t>& fingerprints, const Planner& plan,
                 const StageFactory& make_stage) {
  own_ = own;
  liveness_.name(0, own.host);
  std::vector<wire::Hello> hellos(static_cast<std::size_t>(transport_.size()));
  hellos[0] = own;
  await_hellos(hellos);
  check_agreement(hellos, fingerprints);
  plan_ = plan(hellos);
  for (int r = 1; r < transport_.size(); ++r) {
    plan_.head_host = own_.host;
    plan_.head_time_us = Trace::now_us();
    transport_.send(r, Tag::kStart, wire::encode(plan_));
  }

  const wire::PipelinePlan& target = plan_.pipelines.front();
  const PipelineRanks ranks{kTargetChannel, target.ranks};
  target_ = std::make_unique<Pipeline>(transport_, ranks, make_stage(target, 0, plan_.cache_types), target.cells, target.sequences);
  for (std::size_t d = 1; d < plan_.pipelines.size(); ++d) {
    if (plan_.pipelines[d].ranks.front() == 0) drafter_ = make_drafter(transport_, plan_, plan_.pipelines[d], make_stage);
  }
  if (plan_.trace) target_->stage().trace().enable();
  if (plan_.trace && drafter_) drafter_->pipeline().stage().trace().enable();
  load();
}

void Head::await_hellos(std::vector<wire::Hello>& hellos) {
  int missing = transport_.size() - 1;
  on_hello_ = [&](int rank, wire::Hello hello) {
    liveness_.name(rank, hello.host);
    liveness_.tell(rank, {});  // what it was before is of another job
    hellos[static_cast<std::size_t>(rank)] = std::move(hello);
    --missing;
  };
  while (missing > 0) {
    if (!step()) rest();
  }
  on_hello_ = nullptr;
}

void Head::check_agreement(const std::vector<wire::Hello>& hellos, const std::vector<std::uint64_t>& fingerprints) const {
  for (std::size_t r = 1; r < hellos.size(); ++r) {
    const wire::Hello& a = hellos[0];
    const wire::Hello& b = hellos[r];
    if (a.protocol != b.protocol || a.version != b.version) {
      throw ClusterError(fmt::format("rank {} ({}) runs another version of yamata ({}) than rank 0 ({}); install the same one everywhere",
                                     r, b.host, b.version.empty() ? "unknown" : b.version, a.version));
    }
    const auto model = static_cast<std::size_t>(b.model);
    if (model >= fingerprints.size() || b.fingerprints.size() != fingerprints.size())
      throw ClusterError(fmt::format("rank {} ({}) was started with other flags than rank 0; give all ranks the same ones", r, b.host));
    if (fingerprints[model] != b.fingerprints[model]) {
      throw ModelError(fmt::format("rank {} ({}) has another {} file at this path than rank 0 ({}); copy the same file to every machine", r,
                                   b.host, model == 0 ? "model" : "draft model", a.host));
    }
  }
}

void Head::load() {
  loading_ = true;
  target_->stage().load();
  if (drafter_) drafter_->pipeline().stage().load();
  const auto all = static_cast<std::uint64_t>(transport_.size()) * 1000;
  while (true) {
    const bool heard = step();
    std::uint64_t sum = own_heartbeat().loaded_permille;
    for (int r = 1; r < transport_.size(); ++r) sum += liveness_.state(r).loaded_permille;
    if (options_.on_loading) options_.on_loading(static_cast<double>(sum) / static_cast<double>(all));
    if (sum == all && (!drafter_ || drafter_->pipeline().stage().loaded())) break;
    if (!heard) rest();
  }
  loading_ = false;
  running_ = true;
  for (int r = 1; r < transport_.size(); ++r) {
    if (draft_plan_of(r)) liveness_.hurry(r, kDrafterTimeout);
  }
}

wire::Heartbeat Head::own_heartbeat() const { return target_ ? target_->stage().heartbeat() : wire::Heartbeat{}; }

bool Head::step() {
  bool anything = false;
  while (auto message = transport_.receive()) {
    dispatch(std::move(*message));
    anything = true;
  }
  if (target_ && target_->advance()) anything = true;
  if (drafter_ && drafter_->advance()) anything = true;
  if (options_.interrupted && *options_.interrupted && !stopped_) throw Interrupted{};
  if (transport_.size() > 1) send_heartbeats();
  if (anything) idle_.reset();
  return anything;
}

std::vector<float> Head::wait_logits() {
  while (true) {
    if (auto result = target_->take_result()) return std::move(result->logits);
    if (!step()) rest();
  }
}

const wire::PipelinePlan* Head::draft_plan_of(int rank) const {
  for (std::size_t d = 1; d < plan_.pipelines.size(); ++d) {
    if (plan_.pipelines[d].stage_of(rank)) return &plan_.pipelines[d];
  }
  return nullptr;
}

/// The text goes on without this drafter; of a draft model on several ranks, all go.
void Head::lose_drafter_of(int rank, const std::string& why) {
  const wire::PipelinePlan& plan = *draft_plan_of(rank);
  const int leader = plan.ranks.front();
  if (lost_[static_cast<std::size_t>(leader)]) return;
  for (const int r : plan.ranks) {
    lost_[static_cast<std::size_t>(r)] = true;
    transport_.forget(r);
    liveness_.unwatch(r);
  }
  if (options_.on_warning) options_.on_warning(fmt::format("the text goes on without the drafter on rank {}: {}", leader, why));
  if (on_drafter_lost) on_drafter_lost(leader);
}

void Head::send_heartbeats() {
  const auto now = Liveness::Clock::now();
  if (!liveness_.due(now)) return;
  const wire::Heartbeat own = own_heartbeat();
  for (int r = 1; r < transport_.size(); ++r) {
    if (!lost_[static_cast<std::size_t>(r)]) transport_.send(r, Tag::kHeartbeat, wire::encode(own));
  }
  if (options_.woken && options_.woken->exchange(false)) liveness_.hold_back(now);
  if (const auto silent = liveness_.silent(now)) {
    if (running_ && draft_plan_of(*silent)) {
      lose_drafter_of(*silent, liveness_.silence_text(*silent, 0));
    } else {
      throw ClusterError(liveness_.silence_text(*silent, 0));
    }
  }
  give_up_stalled_drafters(now);
  if (target_) liveness_.check_progress(now, loading_ || target_->outstanding() > 0, own, target_->ranks().ranks);
}

/// Each of its ranks is heard, and yet nothing comes: they do not hear each other.
void Head::give_up_stalled_drafters(Liveness::Clock::time_point now) {
  if (!running_ || !drafter_awaited) return;
  for (std::size_t d = 1; d < plan_.pipelines.size(); ++d) {
    const std::vector<int>& ranks = plan_.pipelines[d].ranks;
    const int leader = ranks.front();
    if (leader == 0 || lost_[static_cast<std::size_t>(leader)]) continue;
    if (liveness_.drafter_stalled(now, drafter_awaited(leader), ranks)) lose_drafter_of(leader, liveness_.stall_text(leader));
  }
}

void Head::dispatch(Message message) {
  if (message.from != 0) liveness_.heard(message.from, Liveness::Clock::now());
  if (target_ && kTargetChannel.carries(message.tag)) return target_->on_message(std::move(message));
  if (drafter_ && kDraftChannel.carries(message.tag)) return drafter_->pipeline().on_message(std::move(message));
  switch (message.tag) {
    case Tag::kHello:
      if (on_hello_) on_hello_(message.from, wire::decode_hello(message.bytes));
      break;
    case Tag::kCommit:
      if (drafter_) drafter_->on_commit(wire::decode_commit(message.bytes));
      break;
    case Tag::kGuesses:
      if (on_guesses && !lost_[static_cast<std::size_t>(message.from)]) on_guesses(message.from, wire::decode_guesses(message.bytes));
      break;
    case Tag::kHeartbeat:
      liveness_.tell(message.from, wire::decode_heartbeat(message.bytes));
      break;
    case Tag::kReport:
      reports_[static_cast<std::size_t>(message.from)] = wire::decode_report(message.bytes);
      if (stopped_) liveness_.unwatch(message.from);
      break;
    case Tag::kFailure:
      on_failure(message.from, wire::decode_failure(message.bytes));
      break;
    default:
      throw ClusterError(fmt::format("rank {} sent the head a message it does not take", message.from));
  }
}

void Head::on_failure(int rank, const wire::Failure& failure) {
  if (stopped_) return;
  const std::string text = fmt::format("rank {}{}: {}", rank, liveness_.host_suffix(rank), failure.text);
  if (!running_ || !draft_plan_of(rank)) throw Error(static_cast<ExitCode>(failure.code), text);
  lose_drafter_of(rank, text);
}

void Head::rest() {
  const bool computing = target_ && !target_->stage().model().unit().finished();
  computing ? idle_.rest_computing(transport_) : idle_.rest(transport_);
}

wire::Report report_of_rank(const Transport& transport, const Idle& idle, std::uint64_t sent_before, const std::string& host,
                            const std::string& role) {
  wire::Report report;
  report.host = host;
  report.role = role;
  report.device = "cpu";
  report.wait_s = idle.slept_s();
  report.wait_cpu_s = idle.cpu_s();
  report.bytes_sent = transport.bytes_sent() - sent_before;
  report.rss_bytes = own_memory_bytes();
  return report;
}

wire::Report Head::own_report() {
  wire::Report report = report_of_rank(transport_, idle_, sent_before_, own_.host, drafter_ ? "head, drafter" : "head");
  report.isa = own_.isa;
  report.threads = own_.threads;
  if (target_) target_->stage().describe(report);
  if (target_) report.events = target_->stage().trace().shifted(0);
  if (drafter_) {
    const Stage& draft = drafter_->pipeline().stage();
    report.busy_s += draft.counters().busy_s;
    report.draft_run_s = draft.cost().measured_s();
    const auto drafts = drafter_->pipeline().stage().trace().shifted(0);
    report.events.insert(report.events.end(), drafts.begin(), drafts.end());
  }
  return report;
}

/// Gives up on drafters that have not reported; the job is done without them.
void Head::give_up_missing_drafters() {
  for (int r = 1; r < transport_.size(); ++r) {
    if (!reports_[static_cast<std::size_t>(r)] && running_ && draft_plan_of(r)) lose_drafter_of(r, "it did not answer the request to stop");
  }
}

bool Head::all_reported() const {
  for (std::size_t r = 0; r < reports_.size(); ++r) {
    if (!reports_[r] && !lost_[r]) return false;
  }
  return true;
}

void Head::check_all_reported() const {
  for (std::size_t r = 0; r < reports_.size(); ++r) {
    if (!reports_[r] && !lost_[r])
      throw ClusterError(fmt::format("rank {}{} did not answer the request to stop: it is stopped, dead or cut off; look at that machine",
                                     r, liveness_.host_suffix(static_cast<int>(r))));
  }
}

std::vector<wire::Report> Head::take_reports() {
  std::vector<wire::Report> reports;
  for (auto& report : reports_) {
    reports.push_back(report ? std::move(*report) : wire::Report{});
    if (!report) reports.back().role = "lost";
    report.reset();
  }
  return reports;
}

std::vector<wire::Report> Head::ask_reports() {
  reports_[0] = own_report();
  for (int r = 1; r < transport_.size(); ++r) transport_.send(r, Tag::kAsk, {});
  while (!all_reported()) {
    if (!step()) rest();
  }
  return take_reports();
}

void Head::finish() {
  stopped_ = true;
  for (int r = 1; r < transport_.size(); ++r) transport_.send(r, Tag::kNextJob, {});
}

std::vector<wire::Report> Head::stop(int code) {
  if (stopped_) return {};
  stopped_ = true;
  constexpr std::chrono::milliseconds kLongest = std::chrono::seconds(5);
  for (int r = 1; r < transport_.size(); ++r) transport_.send(r, Tag::kStop, wire::encode_stop(code));
  reports_[0] = own_report();
  const auto deadline = std::chrono::steady_clock::now() + std::min(kLongest, options_.timeout / 2);
  while (!all_reported()) {
    while (auto message = transport_.receive()) dispatch(std::move(*message));
    if (target_) target_->advance();
    if (!all_reported() && std::chrono::steady_clock::now() > deadline) {
      give_up_missing_drafters();
      check_all_reported();
    }
    if (!all_reported()) idle_.rest(transport_);
  }
  return take_reports();
}

}  // namespace yamata
