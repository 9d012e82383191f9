#include "cache/state_cells.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "node/error.hpp"

namespace yamata {
namespace {

bool of_text(const Placement& token) { return token.sequences.begin == 0; }

}  // namespace

StateCells::StateCells(std::int32_t table_cells, StateCounts counts)
    : counts_(counts),
      states_(static_cast<std::size_t>(counts.states)),
      inputs_(static_cast<std::size_t>(counts.inputs)),
      input_of_(static_cast<std::size_t>(table_cells), -1),
      node_of_(static_cast<std::size_t>(table_cells), -1),
      free_(static_cast<std::size_t>(counts.inputs)),
      plan_{.steps = {}, .inputs = counts.inputs, .states = counts.states} {
  std::iota(free_.rbegin(), free_.rend(), 0);
}

/// The latest run has written its state.
void StateCells::adopt() {
  if (kept_) states_[static_cast<std::size_t>(*kept_)] = kept_token_;
}

const StatePlan& StateCells::plan(const CellTable& table, std::span<const Placement> batch, const BatchCells& cells,
                                  std::int32_t likely_row) {
  if (std::exchange(written_, false)) adopt();
  kept_.reset();
  forget(cells.cells());
  nodes_.clear();
  for (std::size_t row = 0; row < batch.size(); ++row) {
    Node node{.token = {cells.cells()[row], batch[row].position}, .row = static_cast<std::int32_t>(row)};
    node.parent = find_before(table, batch[row], cells.visible(row), node);
    add(node);
  }
  keep_state(table, batch, likely_row);
  keep_inputs(table, batch);
  for (Node& node : nodes_) find_columns(node);
  order_steps();
  for (const Node& node : nodes_) node_of_[static_cast<std::size_t>(node.token.cell)] = -1;
  return plan_;
}

void StateCells::suppose_text(const CellTable& table) {
  written_ = false;
  kept_.reset();
  std::ranges::fill(states_, Token{});
  const std::int32_t position = table.end(0) - 1;
  if (position >= 0) states_.front() = {table.at(0, position), position};
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
/// beginning of a text: these are guesses as well, whose results no one reads.
std::int32_t StateCells::find_before(const CellTable& table, const Placement& token, std::span<const CellId> seen, Node& node) {
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
    const std::int32_t position = token.position - static_cast<std::int32_t>(seen.size() - at);
    if (table.at(0, position) == cell) throw ClusterError("a text goes on where it has no state; please report this");
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

/// Chooses the node whose state will be kept: the likely row, if its state takes the place of no other one, and not too many tokens would
/// be in no state of the text; else the last token of the text among the nodes.
void StateCells::keep_state(const CellTable& table, std::span<const Placement> batch, std::int32_t likely_row) {
  Node *last = nullptr, *likely = nullptr;
  for (Node& node : nodes_) {
    const bool text =
        node.row >= 0 ? of_text(batch[static_cast<std::size_t>(node.row)]) : table.at(0, node.token.position) == node.token.cell;
    if (text && (!last || node.token.position > last->token.position)) last = &node;
    if (!text && node.row >= 0 && node.row == likely_row) likely = &node;
  }
  keeps_text_ = false;
  if (likely && likely->token.position - latest_of_text(table).position <= lag() && keep_state_of(*likely, free_state(table, true))) return;
  keeps_text_ = last && keep_state_of(*last, free_state(table, false));
}

/// `state`: -1: none is free.
bool StateCells::keep_state_of(Node& node, std::int32_t state) {
  if (state < 0) return false;
  node.keep = state;
  states_[static_cast<std::size_t>(state)] = {};
  kept_ = state;
  kept_token_ = node.token;
  return true;
}

/// The token of the text after which the latest state is kept.
StateCells::Token StateCells::latest_of_text(const CellTable& table) const {
  Token latest;
  for (const Token& token : states_) {
    if (token.position > latest.position && table.at(0, token.position) == token.cell) latest = token;
  }
  return latest;
}

/// How many tokens there may be between the text's latest state and a guess whose state is kept: see `enough`.
std::int32_t StateCells::lag() const { return counts_.inputs / 2 + static_cast<std::int32_t>(kMoreThanGuesses) / 2; }

/// Whether a kept text ends with this token.
bool StateCells::is_kept_text(const CellTable& table, const Token& token) const {
  const std::int32_t end = table.sequence_count();
  for (std::int32_t sequence = end - kept_texts(); sequence < end; ++sequence) {
    if (table.end(sequence) == token.position + 1 && table.at(sequence, token.position) == token.cell) return true;
  }
  return false;
}

/// A state that this run does not read, of a token that is not in the table any more, or of the text, but neither its latest nor that of a
/// kept text. If there is none, and it is not `for_guess`, that of a guess.
std::int32_t StateCells::free_state(const CellTable& table, bool for_guess) const {
  const Token latest = latest_of_text(table);
  std::int32_t free = -1;
  for (std::int32_t state = 0; state < counts_.states; ++state) {
    if (std::ranges::any_of(nodes_, [&](const Node& node) { return node.parent < 0 && node.state == state; })) continue;
    const Token& token = states_[static_cast<std::size_t>(state)];
    if (token.cell == kNoCell || !table.held(token.cell)) return state;
    if (token.cell == latest.cell || is_kept_text(table, token)) continue;
    if (table.at(0, token.position) == token.cell) return state;
    if (!for_guess) free = state;
  }
  return free;
}

/// Inputs are kept of tokens that the text's state does not contain.
void StateCells::keep_inputs(const CellTable& table, std::span<const Placement> batch) {
  const auto contained = [&](const Node& node) {
    return keeps_text_ && of_text(batch[static_cast<std::size_t>(node.row)]) && node.token.position <= kept_token_.position;
  };
  const auto needs = [&](const Node& node) { return node.row >= 0 && !contained(node); };
  make_room(table, static_cast<std::size_t>(std::ranges::count_if(nodes_, needs)));
  for (Node& node : nodes_) {
    if (!needs(node)) continue;
    node.input = free_.back();
    free_.pop_back();
    inputs_[static_cast<std::size_t>(node.input)] = node.token;
    input_of_[static_cast<std::size_t>(node.token.cell)] = node.input;
  }
}

/// Whether the text, or a guess, goes on from this token. Kept texts do so from their states.
bool StateCells::is_current(const CellTable& table, const Token& token) const {
  if (token.cell == kNoCell || !table.held(token.cell)) return false;
  const std::int32_t end = kept_texts() > 0 ? table.sequence_count() - kept_texts() : 0;
  for (std::int32_t sequence = 0; sequence < end; ++sequence) {
    if (table.at(sequence, token.position) == token.cell) return true;
  }
  return end == 0;
}

/// If there are too few, takes inputs of tokens that were removed, or that are not after the latest state.
void StateCells::make_room(const CellTable& table, std::size_t inputs) {
  if (free_.size() >= inputs) return;
  const std::int32_t begin = latest_of_text(table).position + 1;
  for (std::size_t input = 0; input < inputs_.size(); ++input) {
    Token& token = inputs_[input];
    if (token.cell == kNoCell || (token.position >= begin && is_current(table, token))) continue;
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

void StateCells::add_step(std::int32_t number, std::int32_t load) {
  Node& node = nodes_[static_cast<std::size_t>(number)];
  if (node.children > 1 && node.keep < 0) {
    if (free_aside_.empty()) free_aside_.push_back(plan_.aside++);
    node.aside = free_aside_.back();
    free_aside_.pop_back();
  }
  steps_.push_back({.row = node.row, .input = node.input, .load = load, .keep = node.keep, .aside = node.aside, .columns = node.columns});
}

/// Depth first: a node's first child continues its state, the others load it.
void StateCells::order_steps() {
  steps_.clear();
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
      if (!begun) load = node.keep >= 0 ? node.keep : counts_.states + node.aside;
      if (node.first_child < 0 && node.aside >= 0) free_aside_.push_back(node.aside);
      add_step(child, load);
      number = child;
    }
  }
  plan_.steps = steps_;
}

}  // namespace yamata
