#include "cache/state_cells.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "node/error.hpp"

namespace yamata {

StateCells::StateCells(std::int32_t table_cells, std::int32_t inputs, const TextSlots& texts, std::int32_t far_kept)
    : texts_(texts),
      states_(static_cast<std::size_t>(states(texts))),
      inputs_(static_cast<std::size_t>(inputs)),
      input_of_(static_cast<std::size_t>(table_cells), -1),
      node_of_(static_cast<std::size_t>(table_cells), -1),
      free_(static_cast<std::size_t>(inputs)),
      latest_(static_cast<std::size_t>(texts.slots)),
      text_kept_(static_cast<std::size_t>(texts.slots)),
      plan_{.steps = {}, .inputs = inputs, .states = states(texts), .far_kept = far_kept} {
  std::iota(free_.rbegin(), free_.rend(), 0);
}

/// The latest run has written its states.
void StateCells::adopt() {
  for (const Written& written : writes_) states_[static_cast<std::size_t>(written.state)] = written.token;
}

const StatePlan& StateCells::plan(const CellTable& table, std::span<const Placement> batch, const BatchCells& cells,
                                  std::int32_t likely_row) {
  if (std::exchange(written_, false)) adopt();
  writes_.clear();
  forget(cells.cells());
  find_latest(table);
  const auto slot_of = [&](const Placement& token) { return texts_.slot_of(token.sequences.begin); };
  one_text_ = std::ranges::all_of(batch, [&](const Placement& token) { return slot_of(token) == slot_of(batch.front()); });
  nodes_.clear();
  for (std::size_t row = 0; row < batch.size(); ++row) {
    Node node{.token = {cells.cells()[row], batch[row].position, slot_of(batch[row])}, .row = static_cast<std::int32_t>(row)};
    node.parent = find_before(table, cells.visible(row), node);
    add(node);
  }
  keep_states(table, likely_row);
  keep_inputs(table);
  for (Node& node : nodes_) find_columns(node);
  far_of_nodes_.clear();
  for (std::size_t node = 0; plan_.far_kept > 0 && node < nodes_.size(); ++node) find_far_columns(node);
  order_steps();
  for (const Node& node : nodes_) node_of_[static_cast<std::size_t>(node.token.cell)] = -1;
  return plan_;
}

void StateCells::suppose_text(const CellTable& table) {
  written_ = false;
  writes_.clear();
  std::ranges::fill(states_, Token{});
  const std::int32_t text = texts_.text_of(0), position = table.end(text) - 1;
  if (position >= 0) states_.front() = {table.at(text, position), position};
}

/// These cells hold other tokens from now on.
void StateCells::forget(std::span<const CellId> cells) {
  for (const CellId cell : cells) {
    std::int32_t& input = input_of_[static_cast<std::size_t>(cell)];
    if (input >= 0) {
      inputs_[static_cast<std::size_t>(input)] = {};
      free_.push_back(input);
      input = -1;
    }
    for (Token& state : states_) {
      if (state.cell == cell) state = {};
    }
  }
}

bool StateCells::holds(const CellTable& table, std::int32_t sequence, const Token& token) const {
  return token.cell != kNoCell && table.at(sequence, token.position) == token.cell;
}

bool StateCells::in_guesses(const CellTable& table, const Token& token) const {
  const SequenceRange guesses = texts_.guesses_of(token.slot, table);
  for (std::int32_t sequence = guesses.begin; sequence < guesses.end; ++sequence) {
    if (holds(table, sequence, token)) return true;
  }
  return false;
}

void StateCells::find_latest(const CellTable& table) {
  for (std::int32_t slot = 0; slot < texts_.slots; ++slot) {
    Token& latest = latest_[static_cast<std::size_t>(slot)] = {};
    for (const Token& token : states_) {
      if (token.position > latest.position && holds(table, texts_.text_of(slot), token)) latest = token;
    }
  }
}

std::int32_t StateCells::state_after(CellId cell) const {
  const auto found = std::ranges::find(states_, cell, &Token::cell);
  return found == states_.end() ? -1 : static_cast<std::int32_t>(found - states_.begin());
}

void StateCells::add(Node node) {
  const auto number = static_cast<std::int32_t>(nodes_.size());
  node_of_[static_cast<std::size_t>(node.token.cell)] = number;
  if (node.parent >= 0) {
    Node& parent = nodes_[static_cast<std::size_t>(node.parent)];
    ++parent.children;
    node.next_sibling = parent.first_child;
    parent.first_child = number;
  }
  nodes_.push_back(node);
}

/// Adds nodes for those tokens before this one that no kept state contains, and sets the state before them. Returns the node just before
/// the token; -1: the token itself follows a state, or begins a text. What follows a guess that was never computed is treated as the
/// beginning of a text: these are guesses as well, whose results no one reads. So are tokens of a text that has been left, if its earlier
/// runs were skipped, and this one is also that of other texts.
std::int32_t StateCells::find_before(const CellTable& table, std::span<const CellId> seen, Node& node) {
  std::int32_t before = -1, state = StateStep::kZero;
  std::size_t at = seen.size() - 1;  // tokens from here on to the last one need nodes
  for (; at > 0; --at) {
    const CellId cell = seen[at - 1];
    before = node_of_[static_cast<std::size_t>(cell)];
    if (before >= 0) break;
    const std::int32_t kept = state_after(cell);
    if (kept >= 0) {
      state = kept;
      break;
    }
    if (input_of_[static_cast<std::size_t>(cell)] >= 0) continue;
    const std::int32_t position = node.token.position - static_cast<std::int32_t>(seen.size() - at);
    if (one_text_ && table.at(texts_.text_of(node.token.slot), position) == cell)
      throw ClusterError("a text goes on where it has no state; please report this");
    break;
  }
  for (; at + 1 < seen.size(); ++at) {
    const CellId cell = seen[at];
    const std::int32_t input = input_of_[static_cast<std::size_t>(cell)];
    add({.token = inputs_[static_cast<std::size_t>(input)], .parent = before, .state = state, .input = input});
    before = node_of_[static_cast<std::size_t>(cell)];
  }
  node.state = state;
  return before;
}

/// Chooses the node of each text whose state will be kept: the likely row, if its state takes the place of no other one, and not too many
/// tokens would be in no state of their text; else the last token of the text among the nodes. Texts without a likely row come first, since
/// rows of a text must have its state kept.
void StateCells::keep_states(const CellTable& table, std::int32_t likely_row) {
  std::vector<Node*> last(latest_.size());
  Node* likely = nullptr;
  for (Node& node : nodes_) {
    Node*& of_text = last[static_cast<std::size_t>(node.token.slot)];
    const bool text = in_text(table, node.token);
    if (text && (!of_text || node.token.position > of_text->token.position)) of_text = &node;
    if (!text && node.row >= 0 && node.row == likely_row) likely = &node;
  }
  std::ranges::fill(text_kept_, -1);
  const auto keep_text = [&](std::size_t slot) {
    if (last[slot] && write(*last[slot], free_state(table, static_cast<std::int32_t>(slot), false)))
      text_kept_[slot] = last[slot]->token.position;
  };
  const std::size_t of_likely = likely ? static_cast<std::size_t>(likely->token.slot) : last.size();
  for (const bool rows : {true, false}) {
    for (std::size_t slot = 0; slot < last.size(); ++slot) {
      if (slot != of_likely && last[slot] && (last[slot]->row >= 0) == rows) keep_text(slot);
    }
  }
  if (!likely) return;
  const std::int32_t slot = likely->token.slot, lag = likely->token.position - latest_[of_likely].position;
  if (lag > most_lag(table, slot) || !write(*likely, free_state(table, slot, true))) keep_text(of_likely);
}

/// `state`: -1: none is free.
bool StateCells::write(Node& node, std::int32_t state) {
  if (state < 0) return false;
  node.keep = state;
  states_[static_cast<std::size_t>(state)] = {};
  writes_.push_back({state, node.token});
  return true;
}

/// How many tokens there may be between a text's latest state and a guess whose state is kept, so that those of all texts leave inputs for
/// guesses: see `enough`.
std::int32_t StateCells::most_lag(const CellTable& table, std::int32_t slot) const {
  std::int32_t most = (static_cast<std::int32_t>(inputs_.size()) + static_cast<std::int32_t>(kMoreThanGuesses) * texts_.slots) / 2;
  for (std::int32_t other = 0; other < texts_.slots; ++other) {
    if (other != slot) most -= table.end(texts_.text_of(other)) - 1 - latest_[static_cast<std::size_t>(other)].position;
  }
  return most;
}

bool StateCells::is_latest(const Token& token) const {
  return std::ranges::any_of(latest_, [&](const Token& latest) { return latest.cell == token.cell; });
}

/// Whether a checkpoint ends with this token.
bool StateCells::is_checkpoint(const CellTable& table, const Token& token) const {
  for (std::int32_t sequence = texts_.first_checkpoint(table); sequence < table.sequence_count(); ++sequence) {
    if (table.end(sequence) == token.position + 1 && holds(table, sequence, token)) return true;
  }
  return false;
}

/// Whether this run reads or writes it.
bool StateCells::is_in_use(std::int32_t state) const {
  return std::ranges::any_of(nodes_, [&](const Node& node) { return node.parent < 0 && node.state == state; }) ||
         std::ranges::find(writes_, state, &Written::state) != writes_.end();
}

/// A state after which no text, checkpoint or guess goes on. If there is none, and it is not `for_guess`, that of a guess, if possible of
/// the same text. There is always one for a text that has rows: a run reads at most one state, and writes one, per text.
std::int32_t StateCells::free_state(const CellTable& table, std::int32_t slot, bool for_guess) const {
  std::int32_t guess = -1;
  for (std::int32_t state = 0; state < plan_.states; ++state) {
    if (is_in_use(state)) continue;
    const Token& token = states_[static_cast<std::size_t>(state)];
    if (token.cell == kNoCell || !table.held(token.cell)) return state;
    if (is_latest(token) || is_checkpoint(table, token)) continue;
    if (in_text(table, token) || !in_guesses(table, token)) return state;
    if (!for_guess && (guess < 0 || token.slot == slot)) guess = state;
  }
  return guess;
}

/// Inputs are kept of tokens that no text's state contains.
void StateCells::keep_inputs(const CellTable& table) {
  const auto needs = [&](const Node& node) {
    return node.row >= 0 && (node.token.position > text_kept_[static_cast<std::size_t>(node.token.slot)] || !in_text(table, node.token));
  };
  make_room(table, static_cast<std::size_t>(std::ranges::count_if(nodes_, needs)));
  for (Node& node : nodes_) {
    if (!needs(node)) continue;
    node.input = free_.back();
    free_.pop_back();
    inputs_[static_cast<std::size_t>(node.input)] = node.token;
    input_of_[static_cast<std::size_t>(node.token.cell)] = node.input;
  }
}

/// If there are too few, takes inputs of tokens that were removed, or that are not after the latest state of their text, or whose text has
/// ended. Checkpoints go on from their states.
void StateCells::make_room(const CellTable& table, std::size_t inputs) {
  if (free_.size() >= inputs) return;
  for (std::size_t input = 0; input < inputs_.size(); ++input) {
    Token& token = inputs_[input];
    if (token.cell == kNoCell) continue;
    const bool later = token.position > latest_[static_cast<std::size_t>(token.slot)].position;
    if (later && (in_text(table, token) || in_guesses(table, token))) continue;
    if (node_of_[static_cast<std::size_t>(token.cell)] >= 0) continue;  // this run reads them
    input_of_[static_cast<std::size_t>(token.cell)] = -1;
    token = {};
    free_.push_back(static_cast<std::int32_t>(input));
  }
  if (free_.size() < inputs) throw ClusterError("a run of more guesses than layers with states can hold; please report this");
}

/// The convolution's columns of a node, after those of its parent.
void StateCells::find_columns(Node& node) const {
  node.columns[0] = node.row >= 0 ? StateStep::own_column(node.row) : node.input;
  if (node.parent >= 0) {
    const Node& parent = nodes_[static_cast<std::size_t>(node.parent)];
    std::copy_n(parent.columns.begin(), StateShape::kColumns, node.columns.begin() + 1);
    return;
  }
  for (std::int32_t back = 1; back <= StateShape::kColumns; ++back)
    node.columns[static_cast<std::size_t>(back)] = node.state < 0 ? StateStep::kZero : plan_.column_of(node.state, back);
}

/// The same of a convolution that reaches far back. Parents come first.
void StateCells::find_far_columns(std::size_t number) {
  const Node& node = nodes_[number];
  far_of_nodes_.push_back(node.columns[0]);
  for (std::int32_t back = 1; back <= plan_.far_kept; ++back) {
    const std::size_t before = static_cast<std::size_t>(node.parent) * static_cast<std::size_t>(plan_.far_kept + 1);
    far_of_nodes_.push_back(node.parent >= 0 ? far_of_nodes_[before + static_cast<std::size_t>(back - 1)]
                            : node.state < 0 ? StateStep::kZero
                                             : plan_.far_column_of(node.state, back));
  }
}

void StateCells::add_step(std::int32_t number, std::int32_t load) {
  Node& node = nodes_[static_cast<std::size_t>(number)];
  if (node.children > 1 && node.keep < 0) {
    if (free_aside_.empty()) free_aside_.push_back(plan_.aside++);
    node.aside = free_aside_.back();
    free_aside_.pop_back();
  }
  steps_.push_back({.row = node.row, .input = node.input, .load = load, .keep = node.keep, .aside = node.aside, .columns = node.columns});
  if (plan_.far_kept == 0) return;
  const auto width = static_cast<std::ptrdiff_t>(plan_.far_kept + 1), first = number * width;
  far_of_steps_.insert(far_of_steps_.end(), far_of_nodes_.begin() + first, far_of_nodes_.begin() + first + width);
}

/// Depth first: a node's first child continues its state, the others load it.
void StateCells::order_steps() {
  steps_.clear(), far_of_steps_.clear();
  free_aside_.clear();
  plan_.aside = 0;
  for (std::size_t root = 0; root < nodes_.size(); ++root) {
    if (nodes_[root].parent >= 0) continue;
    auto number = static_cast<std::int32_t>(root);
    add_step(number, nodes_[root].state);
    while (number >= 0) {
      Node& node = nodes_[static_cast<std::size_t>(number)];
      const std::int32_t child = node.first_child;
      if (child < 0) {
        number = node.parent;
        continue;
      }
      node.first_child = nodes_[static_cast<std::size_t>(child)].next_sibling;
      const bool begun = steps_.back().row == node.row && steps_.back().input == node.input;  // nothing came after it
      std::int32_t load = StateStep::kContinue;
      if (!begun) load = node.keep >= 0 ? node.keep : plan_.states + node.aside;
      if (node.first_child < 0 && node.aside >= 0) free_aside_.push_back(node.aside);
      add_step(child, load);
      number = child;
    }
  }
  plan_.steps = steps_, plan_.far_columns = far_of_steps_;
}

}  // namespace yamata
