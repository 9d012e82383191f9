#include "mpi/protocol/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "node/error.hpp"
#include "src/speculation/step_cost.hpp"

namespace yamata::wire {
namespace {

constexpr std::int32_t kMaxSequences = 1 << 16;  // of a cache; each has a table of cells; speculation needs about fifty
constexpr std::int32_t kMaxCells = 1 << 26;      // every rank has a table entry of four bytes for each
constexpr std::int32_t kMaxBatch = 1 << 20;      // rows of a run's buffers
constexpr std::int32_t kMaxDrafts = 1 << 16;     // each may need a sequence
constexpr std::int32_t kMaxThreads = 1 << 20;    // of one machine
constexpr std::uint64_t kMaxBytes = 1ull << 56;  // of one machine's memory: sums over ranks do not overflow
constexpr std::int32_t kMaxModels = 1 << 16;     // of a job
constexpr std::int64_t kLatest = 1ll << 60;      // microseconds of any clock: differences do not overflow
constexpr std::int32_t kMaxExitCode = 255;

/// Checks values of one rank's message; errors name the rank.
class Check {
 public:
  Check(int from, const char* what) : from_(from), what_(what) {}
  void operator()(bool holds, const char* fault) const {
    if (!holds) refuse(fault);
  }

 private:
  [[noreturn]] void refuse(const char* fault) const {
    throw ClusterError(fmt::format("rank {} sent {} that is not valid: {}; do all ranks run the same yamata?", from_, what_, fault));
  }
  int from_;
  const char* what_;
};

bool within(std::int64_t value, std::int64_t least, std::int64_t most) { return value >= least && value <= most; }

/// Whether it is a possible time, cost or share.
bool usable(double value) { return std::isfinite(value) && value >= 0; }

bool usable(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return usable(value); });
}

bool exist(SequenceRange range, std::int32_t sequences) { return range.begin >= 0 && range.begin < range.end && range.end <= sequences; }

bool ascend_within(std::span<const std::int32_t> rows, std::size_t tokens) {
  std::int64_t last = -1;
  for (const std::int32_t row : rows) {
    if (row <= last || static_cast<std::size_t>(row) >= tokens) return false;
    last = row;
  }
  return true;
}

void check_operation(const CacheOperation& operation, std::int32_t sequences, const Check& check) {
  using Kind = CacheOperation::Kind;
  check(operation.kind <= Kind::kClear, "a cache operation of no known kind");
  if (operation.kind == Kind::kClear) return;
  check(exist(operation.sequences, sequences), "a cache operation on sequences that do not exist");
  check(operation.positions.begin >= 0 && operation.positions.begin <= operation.positions.end, "a cache operation on no positions");
  if (operation.kind == Kind::kCopy) check(within(operation.from, 0, sequences - 1), "a copy of a sequence that does not exist");
}

void check_pipeline(const PipelinePlan& plan, int ranks, const Check& check) {
  check(!plan.ranks.empty() && plan.layers.size() == plan.ranks.size(), "a stage without a rank or layers");
  check(plan.packed.empty() || plan.packed.size() == plan.ranks.size(), "packed weights of other stages than there are");
  for (const std::uint8_t packed : plan.packed) check(packed <= static_cast<std::uint8_t>(Packed::kFirstLayers), "packed weights");
  check(std::all_of(plan.ranks.begin(), plan.ranks.end(), [&](int rank) { return within(rank, 0, ranks - 1); }),
        "the plan names a rank that does not exist");
  check(std::set<int>(plan.ranks.begin(), plan.ranks.end()).size() == plan.ranks.size(), "a rank has two stages of one model");
  std::int64_t begin = 0, end = 0;
  for (const LayerRange& range : plan.layers) {
    const bool shared = range.begin == begin && range.end == end && end > 0;
    check(shared || (range.begin == end && range.end > range.begin), "layers that do not follow each other");
    begin = range.begin, end = range.end;
  }
  const auto shares = [&](const LayerRange& range) { return std::count(plan.layers.begin(), plan.layers.end(), range) > 1; };
  const bool groups = std::any_of(plan.layers.begin(), plan.layers.end(), shares);
  check(plan.shares.empty() ? !groups : plan.shares.size() == plan.ranks.size(), "ranks that share layers without a share each");
  check(std::all_of(plan.shares.begin(), plan.shares.end(), [](double share) { return std::isfinite(share) && share > 0; }),
        "a share that is not above 0");
  check(within(plan.cells, 1, kMaxCells) && within(plan.sequences, 1, kMaxSequences), "the size of a cache");
  check(within(plan.slots, 1, plan.sequences) && within(plan.slot_sequences, 1, plan.sequences / plan.slots), "the sequences of texts");
  check(plan.first_layers.empty() || plan.first_layers.size() == plan.ranks.size(), "layers on devices of other stages than there are");
  for (std::size_t i = 0; i < plan.first_layers.size(); ++i)
    check(within(plan.first_layers[i], 0, plan.layers[i].count()), "the layers on a device");
  check(within(plan.window_cells, 0, plan.cells), "the cells of layers with a window");
  check(within(plan.checkpoints, 0, plan.sequences - plan.slots * plan.slot_sequences), "the checkpoints of texts");
  check(within(plan.model, 0, kMaxModels), "the number of a model");
}

/// A rank with stages of several pipelines must lead these pipelines. Of the drafts that it leads, at most one may have stages on other
/// ranks.
void check_shared_ranks(std::span<const PipelinePlan> pipelines, const Check& check) {
  std::set<int> leaders, drafters, others;
  for (const PipelinePlan& plan : pipelines) {
    for (const int rank : plan.ranks) {
      const bool leads = rank == plan.ranks.front();
      check(!others.contains(rank) && (leads || !leaders.contains(rank)), "a rank has stages of two models and does not lead both");
      (leads ? leaders : others).insert(rank);
    }
    if (plan.model > 0 && plan.ranks.size() > 1) check(drafters.insert(plan.ranks.front()).second, "a rank leads two drafts");
  }
}

}  // namespace

void validate(const Record& record, const RecordLimits& limits, int from) {
  const Check check(from, "a run");
  for (const CacheOperation& operation : record.operations) check_operation(operation, limits.sequences, check);
  check(record.placements.size() == record.tokens.size(), "tokens without a place");
  check(ascend_within(record.logit_rows, record.tokens.size()), "logits of rows that it has not");
  check(ascend_within(record.feature_rows, record.tokens.size()), "features of rows that it has not");
  constexpr std::size_t kEveryLayer = std::size_t{1} << 31;
  check(ascend_within(record.feature_layers, kEveryLayer), "features of layers that there cannot be");
  check(record.best >= 0, "the number of the best logits");
  check(within(record.likely_row, -1, std::ssize(record.tokens) - 1), "a likely row that it has not");
  check(record.features.empty() ||
            (limits.features > 0 && record.features.size() == record.tokens.size() * static_cast<std::size_t>(limits.features)),
        "features that its tokens cannot come with");
  if (!record.has_run()) return;
  check(record.run > limits.last_run, "an id no higher than that of the run before");
  for (std::size_t row = 0; row < record.placements.size(); ++row) {
    const Placement& token = record.placements[row];
    check(within(token.position, 0, limits.cells - 1), "a position beyond the cache");
    check(within(token.parent, -1, static_cast<std::int64_t>(row) - 1), "a token before the one that it follows");
    check(exist(token.sequences, limits.sequences), "a token in sequences that do not exist");
  }
}

void validate_activations(const Rows& rows, const Record& record, RowWidths widths, std::int64_t layer, int from) {
  const Check check(from, "activations");
  if (rows.run != record.run) {
    throw ClusterError(fmt::format("rank {} sent activations of run {} where those of run {} were due", from, rows.run, record.run));
  }
  check(rows.tokens.empty() && rows.sums.empty(), "logits in the place of hidden states");
  const auto floats = [&](std::size_t n, std::int64_t width) { return rows.skipped ? 0 : n * static_cast<std::size_t>(width); };
  check(rows.values.size() == floats(record.tokens.size(), widths.activations), "more or fewer than the run's");
  check(rows.features.size() == floats(record.features_below(layer), widths.hidden), "more or fewer features than the layers so far have");
}

void validate(const Rows& rows, const ResultLimits& limits, int from) {
  const Check check(from, "logits");
  if (rows.run != limits.run)
    throw ClusterError(fmt::format("rank {} sent logits of run {} where those of run {} were due", from, rows.run, limits.run));
  if (rows.skipped) {
    check(limits.may_skip, "none of a run that was not cancelled");
    check(rows.values.empty() && rows.tokens.empty() && rows.sums.empty() && rows.features.empty(), "some of a run that was skipped");
    return;
  }
  const auto vocabulary = static_cast<std::size_t>(limits.vocabulary), best = static_cast<std::size_t>(limits.best);
  const bool all = limits.all_logits() || limits.logit_rows == 0;
  check(rows.values.size() == limits.logit_rows * (all ? vocabulary : best), "more or fewer than were asked for");
  check(rows.tokens.size() == (all ? 0 : rows.values.size()), "the best of a row without their tokens");
  check(all || rows.vocabulary == vocabulary, "those of another vocabulary");
  check(rows.sums.size() == (limits.sums && !all ? limits.logit_rows : 0), "more or fewer sums than were asked for");
  check(rows.features.size() == limits.feature_floats(), "more or fewer features than were asked for");
}

void validate_part(const Rows& rows, const ResultLimits& limits, bool features, int from) {
  const Check check(from, "logits");
  if (rows.skipped || rows.run != limits.run) return validate(rows, limits, from);
  const auto vocabulary = static_cast<std::size_t>(limits.vocabulary), best = static_cast<std::size_t>(limits.best);
  const std::size_t most = limits.all_logits() ? vocabulary : best;
  check(rows.values.size() <= limits.logit_rows * most, "more or fewer than were asked for");
  check(limits.logit_rows == 0 || rows.values.size() % limits.logit_rows == 0, "rows of different lengths");
  check(rows.tokens.size() == (most == vocabulary ? 0 : rows.values.size()), "the best of a row without their tokens");
  for (const std::int32_t token : rows.tokens) check(within(token, -1, limits.vocabulary - 1), "a token beyond the vocabulary");
  const bool sums = limits.sums && !rows.tokens.empty();
  check(rows.sums.size() == (sums ? limits.logit_rows : 0), "more or fewer sums than were asked for");
  check(rows.features.size() == (features ? limits.feature_floats() : 0), "more or fewer features than were asked for");
}

void validate_cancel(std::span<const std::uint64_t> runs, int from) {
  Check(from, "a cancellation")(std::find(runs.begin(), runs.end(), 0u) == runs.end(), "no run has the id 0");
}

void validate(const Commit& commit, const CommitLimits& limits, int from) {
  const Check check(from, "text");
  check(commit.position == limits.position, "it does not go on where the drafter's text ends");
  if (commit.ended) return check(commit.tokens.empty() && commit.features.empty(), "a text that grows after its end");
  check(!commit.tokens.empty(), "it is empty");
  check(commit.tokens.size() <= static_cast<std::size_t>(std::max(limits.cells - limits.position, 0)), "it is longer than the context");
  for (const std::int32_t token : commit.tokens) check(within(token, 0, limits.vocabulary - 1), "a token beyond the vocabulary");
  const std::size_t first = commit.position == 0 ? 1 : 0;  // there is no token before it
  check(limits.features == 0 || commit.tokens.size() > first, "a text for heads of which nothing is computed");
  check(
      commit.features.size() == (commit.tokens.size() - std::min(first, commit.tokens.size())) * static_cast<std::size_t>(limits.features),
      "features of other tokens than it has");
  check(commit.min_drafts >= 0, "the number of guesses asked for");
  check(commit.min_path_probability >= 0, "the least path probability");
}

void validate(const Guesses& guesses, const GuessLimits& limits, int from) {
  const Check check(from, "guesses");
  check(guesses.epoch <= limits.epoch, "they follow text that it was not told of");
  check(guesses.root_position >= 0 && static_cast<std::size_t>(guesses.root_position) < limits.text_tokens, "they begin outside the text");
  check(usable(guesses.evaluation_s), "the time of an evaluation");
  const std::int64_t most = limits.vocabulary > 0 ? limits.vocabulary - 1 : INT32_MAX;
  for (const Guess& guess : guesses.guesses) {
    check(guess.parent >= guesses.root && guess.id > guess.parent, "a guess before the one that it follows");
    check(within(guess.token, 0, most), "a token beyond the vocabulary");
    check(guess.probability >= 0 && guess.probability <= 1, "a probability");
  }
}

void validate(const Hello& hello, int from) {
  if (hello.protocol != kProtocolVersion) return;
  const Check check(from, "a greeting");
  check(hello.available_bytes <= kMaxBytes && hello.device_bytes <= kMaxBytes, "its memory");
  check(hello.device_layers >= 0 && within(hello.device_copies, 0, 1), "the layers of its device");
  check(within(hello.device_is_unified, 0, 1) && within(hello.device_drafts, 0, 1), "the memory of its device");
  check(within(hello.fetches_to_memory, 0, 1), "where it keeps fetched weights");
  check(within(hello.threads, 0, kMaxThreads) && within(hello.logical_cpus, 0, kMaxThreads), "its threads or processors");
  check(within(hello.model, 0, kMaxModels), "the number of its model");
  check(hello.threads_measured_s >= 0, "when its threads were measured");
}

void validate(const Measured& measured, int from) {
  const Check check(from, "a speed");
  check(usable(measured.ns_per_byte), "the time per byte of its weights");
  check(usable(measured.width_multiples) && measured.width_multiples.size() <= StepCost::kWidest, "what wide runs take");
}

void validate(const BenchmarkRequest& layer, int ranks, int rank, int from) {
  constexpr std::int32_t kMaxRuns = 1024, kMaxLayers = 1 << 16;
  const Check check(from, "a layer to share");
  check(ascend_within(layer.ranks, static_cast<std::size_t>(ranks)) && layer.ranks.size() > 1, "ranks that are no group");
  check(std::ranges::count(layer.ranks, rank) == 1, "a group of which this rank is no member");
  check(layer.shares.size() == layer.ranks.size() &&
            std::all_of(layer.shares.begin(), layer.shares.end(), [](double share) { return std::isfinite(share) && share > 0; }),
        "a share that is not above 0");
  check(layer.layer >= 0 && within(layer.layers, 1, kMaxLayers) && within(layer.runs, 1, kMaxRuns), "its numbers, or that of its runs");
}

void validate(const BenchmarkResult& took, int from) {
  Check(from, "what a shared layer took")(usable(took.computing_s) && usable(took.exchange_s), "its times");
}

/// A root, and nodes below earlier nodes, one level deeper.
static bool is_tree(const StaticTree& tree) {
  if (tree.nodes.empty() || tree.width() > kMaxDrafts || tree.nodes[0] != StaticTree::Node{}) return false;
  for (std::int32_t i = 1; i < tree.width(); ++i) {
    const StaticTree::Node& node = tree.nodes[static_cast<std::size_t>(i)];
    if (!within(node.parent, 0, i - 1) || !within(node.rank, 0, kMaxDrafts)) return false;
    if (node.level != tree.nodes[static_cast<std::size_t>(node.parent)].level + 1) return false;
  }
  return true;
}

void validate(const Start& start, int ranks, int from) {
  const Check check(from, "a plan");
  const auto known = [](CacheType type) { return type >= CacheType::kF16 && type <= CacheType::kQ8_0; };
  check(known(start.cache_types.k) && known(start.cache_types.v), "a cache of no known type");
  check(within(start.batch, 1, kMaxBatch), "the size of a batch");
  check(within(start.head_time_us, -kLatest, kLatest), "the time of the head's clock");
  const DraftOptions& draft = start.draft;
  check(within(draft.width, 1, kMaxDrafts) && within(draft.children, 1, kMaxDrafts) && within(draft.credit, 1, kMaxDrafts),
        "the numbers of guesses");
  check(usable(draft.threshold), "the least probability of a guess");
  check(within(draft.branches, 0, kMaxDrafts) && usable(draft.accept) && usable(draft.split), "the branches of a chain of guesses");
  check(is_tree(draft.shape), "the shape of a tree of guesses");
  check(within(draft.depth, 0, kMaxDrafts), "the depth of a tree of guesses");
  check(within(draft.sequences, 0, kMaxDrafts), "the sequences of guesses");
  for (const PipelinePlan& plan : start.pipelines) check_pipeline(plan, ranks, check);
  check_shared_ranks(start.pipelines, check);
}

void validate_layers(const PipelinePlan& plan, std::int64_t layers, int from) {
  Check(from, "a plan")(!plan.layers.empty() && plan.layers.back().end == layers, "other layers than the model has");
}

void validate(const Heartbeat& heartbeat, int from) {
  const Check check(from, "a heartbeat");
  check(heartbeat.activity <= Activity::kAwaitingActivations, "no known activity");
  check(heartbeat.loaded_permille <= 1000, "more weights than there are");
  check(from == 0 || !(heartbeat.can_lose_drafters || heartbeat.serving), "what only the head decides");
  const auto exist = [](const std::vector<std::int32_t>& ranks) { return std::ranges::none_of(ranks, [](int rank) { return rank < 0; }); };
  check(heartbeat.awaits >= -1 && exist(heartbeat.hears) && exist(heartbeat.receives), "a rank that does not exist");
}

void validate(const Report& report, int from) {
  const Check check(from, "a report");
  check(report.layers.begin >= 0 && report.layers.begin <= report.layers.end, "its layers");
  check(within(report.threads, 0, kMaxThreads), "its threads");
  check(std::isfinite(report.busy_s) && std::isfinite(report.wait_s) && std::isfinite(report.wait_cpu_s), "its times");
  check(report.share > 0 && report.share <= 1 && usable(report.exchange_s), "its part of a group");
  check(report.run_s.size() <= StepCost::kWidest && report.draft_run_s.size() <= StepCost::kWidest, "times of runs wider than measured");
  check(std::isfinite(report.draft_s) && std::isfinite(report.candidates_s), "the times of its drafts");
  check(usable(report.copy_wait_s), "the time of its copies");
  check(usable(report.run_s) && usable(report.draft_run_s), "the times of its runs");
  for (const TraceEvent& event : report.events) {
    check(event.kind <= TraceEvent::Kind::kExchange, "an event of no known kind");
    check(event.tokens >= 0 && event.begin_us <= event.end_us, "the tokens or the time of an event");
    check(event.begin_us >= -kLatest && event.end_us <= kLatest, "the time of an event");
  }
}

void validate_stop(std::int32_t code, int from) { Check(from, "a request to stop")(within(code, 0, kMaxExitCode), "the exit code"); }

}  // namespace yamata::wire
