#include "tests/mpi/simulation/simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "mpi/simulation/ranks.hpp"
#include "tests/mpi/simulation/feature_reader.hpp"
#include "tests/mpi/simulation/random_network.hpp"

namespace yamata::test {
namespace {

using simulation::mix;
using simulation::share;
using simulation::TableShape;

/// A rank that the scheduler can choose.
struct Rank {
  std::unique_ptr<SimulatedTransport> transport;
  SteppedUnit unit;
  unsigned weight = 1;  // its relative frequency
};

class Cluster {
 public:
  Cluster(const Scenario& scenario, bool trace);
  Outcome run();

 private:
  void build();
  void limit_cells(TableShape& shape, int rows, int guesses, bool draft) const;
  void build_draft_heads(TableShape shape, int next);
  void draw_prompt();
  void begin();
  void write_text(Outcome& outcome);
  bool step(std::size_t rank) { return ranks_->step(rank); }
  void act();
  bool at_rest();
  std::int32_t token_after(std::span<const std::int32_t> history, std::span<float> logits, TokenGrammar::State& state) const;
  std::string check_text() const;
  std::string check_cells();

  const Scenario scenario_;
  const bool trace_;
  Random random_;
  int size_;
  Network network_;
  std::vector<Rank> rank_states_;
  std::unique_ptr<simulation::Ranks> ranks_;
  std::vector<std::int32_t> prompt_, text_;
  TokenGrammar::State grammar_state_ = 0;
  std::int64_t time_ns_ = 0;  // a step of the scheduler takes a fixed time, so that seeds give the same run on every machine
  FeatureReader* features_ = nullptr;
  std::uint64_t death_ = 0;  // step at which a drafter dies; 0: never
};

/// So few tokens that many of its passages are in the text.
std::shared_ptr<SuffixMemory> random_corpus(const Scenario& s) {
  std::vector<std::int32_t> text;
  for (std::uint64_t i = 0; i < 60; ++i)
    text.push_back(static_cast<std::int32_t>(mix(s.seed, i + 1000) % static_cast<std::uint64_t>(s.vocabulary)));
  auto corpus = std::make_shared<SuffixMemory>();
  corpus->add(text);
  return corpus;
}

int ranks_of(const Scenario& s) {
  int ranks = std::accumulate(s.stages.begin(), s.stages.end(), 0);
  for (const auto& drafter : s.drafters) ranks += drafter.ranks;
  for (const auto& draft_heads : s.draft_heads) ranks += draft_heads.place == Scenario::DraftHeads::Place::kOwnRank;
  return ranks;
}

Cluster::Cluster(const Scenario& scenario, bool trace)
    : scenario_(scenario),
      trace_(trace),
      random_(scenario.seed),
      size_(ranks_of(scenario)),
      network_(size_),
      rank_states_(static_cast<std::size_t>(size_)) {
  for (int r = 0; r < size_; ++r) {
    Rank& rank = rank_states_[static_cast<std::size_t>(r)];
    rank.transport = std::make_unique<SimulatedTransport>(network_, r, size_);
    rank.weight = scenario.unplayable_speeds ? 1 + static_cast<unsigned>(random_() % 30) : 8;
  }
  draw_prompt();
  build();
}

void Cluster::draw_prompt() {
  prompt_.clear();
  for (std::int32_t i = 0; i < scenario_.prompt; ++i)
    prompt_.push_back(static_cast<std::int32_t>(random_() % static_cast<unsigned>(scenario_.vocabulary)));
  text_ = prompt_;
}

/// The shapes of the ranks, one after another.
std::vector<TableShape> stages_of(TableShape shape, const std::vector<int>& stages) {
  shape.stages = static_cast<std::int32_t>(stages.size());
  std::vector<TableShape> shapes;
  for (shape.stage = 0; shape.stage < shape.stages; ++shape.stage) {
    shape.members = stages[static_cast<std::size_t>(shape.stage)];
    for (shape.member = 0; shape.member < shape.members; ++shape.member) shapes.push_back(shape);
  }
  return shapes;
}

void Cluster::build() {
  std::vector<simulation::RankParts> parts;
  for (Rank& rank : rank_states_) parts.push_back({rank.transport.get(), &rank.unit});
  ranks_ = std::make_unique<simulation::Ranks>(parts);
  if (scenario_.tamper) {
    ranks_->on_message = [this](std::size_t, Message& message) {
      if (message.tag != Tag::kCommit) return;
      wire::Commit commit = wire::decode_commit(message.bytes);
      scenario_.tamper(commit);
      message.bytes = wire::encode(commit);
    };
  }
  if (trace_) {
    ranks_->on_message = [](std::size_t rank, const Message& message) {
      fmt::print(stderr, "rank {} takes tag {} from {} ({} bytes)\n", rank, static_cast<int>(message.tag), message.from,
                 message.bytes.size());
    };
  }
  if (!scenario_.feature_layers.empty()) {
    ranks_->add_sources = [this](GuessSources& sources) {
      auto reader = std::make_unique<FeatureReader>(sources.next_index(), scenario_.feature_layers);
      features_ = reader.get();
      sources.add(std::move(reader));
    };
  }
  if (scenario_.decode.datastore) {
    ranks_->add_sources = [this, others = ranks_->add_sources](GuessSources& sources) {
      if (others) others(sources);
      sources.add_datastore(random_corpus(scenario_));
    };
  }
  const std::uint64_t seed = scenario_.seed;
  TableShape shape;
  shape.vocabulary = scenario_.vocabulary;
  shape.operations = scenario_.operations;
  shape.cells = scenario_.decode.context + scenario_.decode.guess_cells;
  shape.sequences = scenario_.decode.sequences.end;
  shape.logits = [seed](std::uint64_t prefix, std::span<float> logits) { table_logits(prefix, seed, logits); };
  limit_cells(shape, scenario_.decode.batch, scenario_.decode.guess_cells, false);
  ranks_->add_target(stages_of(shape, scenario_.stages));
  shape.cells = scenario_.decode.context + scenario_.draft.credit;
  shape.sequences = scenario_.draft.credit + 1;
  limit_cells(shape, std::max(scenario_.decode.batch, StepCost::kOfAText), scenario_.draft.credit, true);
  int next = std::accumulate(scenario_.stages.begin(), scenario_.stages.end(), 0);
  for (std::size_t d = 0; d < scenario_.drafters.size(); ++d) {
    const auto [count, group, disagreement] = scenario_.drafters[d];
    shape.logits = [seed, d, disagreement = disagreement](std::uint64_t prefix, std::span<float> logits) {
      const bool differs = share(mix(prefix, d + 1)) < disagreement;
      table_logits(prefix, differs ? mix(seed, d + 1) : seed, logits);
    };
    ranks_->add_drafter(
        count == 0 ? 0 : next,
        stages_of(shape, group ? std::vector<int>{count} : std::vector<int>(static_cast<std::size_t>(std::max(1, count)), 1)),
        scenario_.draft, scenario_.decode.batch);
    next += count;
  }
  build_draft_heads(shape, next);
}

/// Layers with a window, or with states, keep as little as they need.
void Cluster::limit_cells(TableShape& shape, int rows, int guesses, bool draft) const {
  if (scenario_.states)
    shape.state_inputs = std::min(shape.cells, static_cast<std::int32_t>(StateCells::enough(draft ? 2 * guesses : guesses)));
  if (scenario_.window == 0) return;
  shape.window = scenario_.window;
  shape.window_cells = std::min(shape.cells, static_cast<std::int32_t>(WindowCells::enough(shape.window, rows, guesses)));
}

/// `shape`: of a draft; `next`: the first unused rank.
void Cluster::build_draft_heads(TableShape shape, int next) {
  const std::uint64_t seed = scenario_.seed;
  int drafter = std::accumulate(scenario_.stages.begin(), scenario_.stages.end(), 0);
  shape.stage = shape.member = 0;
  shape.stages = shape.members = 1;
  for (std::size_t i = 0; i < scenario_.draft_heads.size(); ++i) {
    const Scenario::DraftHeads& draft_heads = scenario_.draft_heads[i];
    shape.logits = [seed, i, disagreement = draft_heads.disagreement](std::uint64_t prefix, std::span<float> logits) {
      const bool differs = share(mix(prefix, i + 100)) < disagreement;
      table_logits(prefix, differs ? mix(seed, i + 100) : seed, logits);
    };
    using enum Scenario::DraftHeads::Place;
    ranks_->add_draft_heads(draft_heads.place == kHead      ? 0
                            : draft_heads.place == kOwnRank ? next++
                                                            : drafter,
                            shape, draft_heads.layers, scenario_.draft, scenario_.decode.batch);
  }
}

/// The token after `history`, as the request and its grammar, which is in this state, demand it.
std::int32_t Cluster::token_after(std::span<const std::int32_t> history, std::span<float> logits, TokenGrammar::State& state) const {
  const std::shared_ptr<TokenGrammar>& grammar = scenario_.decode.grammar;
  if (grammar) grammar->restrict(state, logits, logits_read(scenario_.sampling, 0));
  const std::int32_t token = Sampler(scenario_.sampling).sample(logits, history, static_cast<std::int64_t>(history.size()));
  if (grammar) state = grammar->after(state, token);
  return token;
}

void Cluster::begin() {
  if (scenario_.decode.grammar) grammar_state_ = scenario_.decode.grammar->start();
  const auto choose = [this](std::vector<float>& logits, std::span<const std::int32_t> history) {
    return token_after(history, logits, grammar_state_);
  };
  const auto take = [this](std::int32_t token) {
    if (trace_) fmt::print(stderr, "commit {} at {}\n", token, text_.size());
    text_.push_back(token);
    return true;
  };
  ranks_->begin(prompt_, scenario_.decode, choose, take);
}

/// Lets one rank act.
void Cluster::act() {
  unsigned total = 0;
  for (const Rank& rank : rank_states_) total += rank.weight;
  auto at = static_cast<unsigned>(random_() % total);
  std::size_t index = 0;
  while (at >= rank_states_[index].weight) at -= rank_states_[index++].weight;
  switch (random_() % 3) {
    case 0:
      network_.deliver_one(random_);
      break;
    case 1:
      step(index);
      break;
    default:
      rank_states_[index].unit.tick();
  }
}

bool Cluster::at_rest() {
  bool moved = false;
  for (std::size_t r = 0; r < rank_states_.size(); ++r) {
    if (!ranks_->dead(r) && rank_states_[r].unit.busy()) {
      rank_states_[r].unit.tick();
      moved = true;
    }
    moved |= step(r);
  }
  while (network_.deliver_one(random_)) moved = true;
  return !moved && network_.silent();
}

std::string Cluster::check_text() const {
  const std::size_t due = std::min<std::size_t>(static_cast<std::size_t>(scenario_.prompt + scenario_.decode.generate),
                                                static_cast<std::size_t>(scenario_.decode.context) + 1);
  if (text_.size() != due) return fmt::format("{} tokens of text, not {}", text_.size(), due);
  TokenGrammar::State state = scenario_.decode.grammar ? scenario_.decode.grammar->start() : TokenGrammar::kForbidden;
  for (std::size_t i = prompt_.size(); i < text_.size(); ++i) {
    std::vector<float> logits(static_cast<std::size_t>(scenario_.vocabulary));
    table_logits(simulation::prefix_hash(std::span(text_).first(i)), scenario_.seed, logits);
    const std::int32_t right = token_after(std::span(text_).first(i), logits, state);
    if (text_[i] != right) return fmt::format("token {} at {} where {} is right", text_[i], i, right);
  }
  return features_ ? features_->check(text_) : "";
}

/// At rest, every stage's table equals the head's, and the text's cells contain the text.
std::string Cluster::check_cells() {
  for (std::size_t s = 0; s < ranks_->target_models().size(); ++s) {
    const CellTable& cells = ranks_->target_models()[s]->cells();
    if (cells.free_cells() != ranks_->target().cells().free_cells())
      return fmt::format("stage {} has {} free cells, the head {}", s, cells.free_cells(), ranks_->target().cells().free_cells());
    for (std::int32_t q = 0; q < cells.sequence_count(); ++q) {
      for (std::int32_t p = 0; p <= scenario_.decode.context; ++p) {
        if (cells.at(q, p) != ranks_->target().cells().at(q, p))
          return fmt::format("stage {}, sequence {}, position {}: cell {} is not the head's {}", s, q, p, cells.at(q, p),
                             ranks_->target().cells().at(q, p));
      }
    }
    for (std::size_t p = 0; p + 1 < text_.size(); ++p) {
      const CellId cell = cells.at(0, static_cast<std::int32_t>(p));
      if (cell == kNoCell) return fmt::format("stage {}: no cell for the text at {}", s, p);
      if (ranks_->target_models()[s]->content(cell) != simulation::token_hash(text_[p], static_cast<std::int32_t>(p)))
        return fmt::format("stage {}: the cell of position {} holds something else", s, p);
    }
  }
  return "";
}

/// Generates the head's next text, from its prompt to its end.
void Cluster::write_text(Outcome& outcome) {
  begin();
  const std::uint64_t limit = outcome.steps + 4'000'000;
  while (!ranks_->decoder().finished() && outcome.steps < limit) {
    ++outcome.steps;
    time_ns_ += 1000;
    if (death_ && outcome.steps == death_) ranks_->kill_drafter(*scenario_.drafter_that_dies);
    act();
  }
  const Decoder::Counters& counters = ranks_->decoder().counters();
  outcome.counters.drafted += counters.drafted;
  outcome.counters.accepted += counters.accepted;
  outcome.counters.runs_cancelled += counters.runs_cancelled;
  outcome.fault =
      ranks_->decoder().finished() ? check_text() : fmt::format("no end after {} steps, {} tokens of text", outcome.steps, text_.size());
}

Outcome Cluster::run() {
  Outcome outcome;
  const Clock::Override clock(time_ns_);
  death_ = scenario_.drafter_that_dies ? 2000 + random_() % 4000 : 0;
  write_text(outcome);
  for (int text = 1; text < scenario_.texts && outcome.fault.empty(); ++text) {
    // Meanwhile the rest of the previous text may end, or not.
    for (std::uint64_t left = random_() % 400; left > 0; --left) act();
    draw_prompt();
    write_text(outcome);
    if (!outcome.fault.empty()) outcome.fault += fmt::format(" (text {})", text + 1);
  }
  if (!outcome.fault.empty()) return outcome;
  for (int i = 0; !at_rest(); ++i) {
    if (i > 1'000'000) {
      outcome.fault = "does not come to rest";
      return outcome;
    }
  }
  outcome.fault = check_cells();
  return outcome;
}

}  // namespace

Outcome play(const Scenario& scenario, bool trace) {
  try {
    return Cluster(scenario, trace).run();
  } catch (const std::exception& e) {
    return {fmt::format("threw: {}", e.what()), {}, 0};
  }
}

}  // namespace yamata::test
