#pragma once
// Which states there are, and how a run's tokens get theirs. A state is that after a cell's token, and is shared by all that follow it.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/cell_table.hpp"
#include "cache/state_store.hpp"
#include "cache/text_slots.hpp"
#include "node/state_op.hpp"

namespace yamata {

/// A state cannot be cut: of a text, only the state after one of its last tokens is kept, and of later tokens, what they do to it. A run
/// begins at the nearest kept state, repeats the tokens from there to its own (with the same bits), and keeps one state of each text whose
/// tokens it has, in other memory: that after the last token of the text, or, if there is memory that no text needs, that after a guess
/// that is likely to become text. Then the runs that follow need not repeat the guesses up to there; if it is rejected, they begin at the
/// text's state, which is still there.
///
/// Further states are those of checkpoints. The state after its last token stays while a checkpoint's sequence holds it, if no run of its
/// text came between the one that wrote it and the operation that copied the text there.
class StateCells {
 public:
  /// `table_cells`: number of cells of the cell table; `inputs`: of tokens; `texts`: the table's; `far_kept`: of the plan.
  StateCells(std::int32_t table_cells, std::int32_t inputs, const TextSlots& texts = {}, std::int32_t far_kept = 0);

  /// Number of inputs needed for `guesses` guesses of all of `texts` texts in the table, and accepted ones of which no run has written the
  /// state; with as many for tokens of texts up to guesses whose states were kept instead of theirs. All other tokens of a text are in the
  /// state that their run writes, for which they need no inputs.
  static std::int64_t enough(std::int64_t guesses, std::int64_t texts = 1) {
    return guesses > 0 ? 2 * guesses + kMoreThanGuesses * texts : 1;
  }
  /// Number of states in memory: of each text its own, and the one that a run writes; of each checkpoint one.
  static std::int32_t states(const TextSlots& texts) { return kStatesOfAText * texts.slots + texts.checkpoints; }

  /// A run sets this to true when its last layer has written its state.
  bool* written() { return &written_; }
  /// Plans a run whose tokens have been placed in the table, when the run before has ended. No token is placed before the end of its text.
  /// `likely_row`: as in StageBatch. Throws ClusterError if the text of a run has no state from which it could begin, or if more inputs are
  /// needed than there are.
  const StatePlan& plan(const CellTable& table, std::span<const Placement> batch, const BatchCells& cells, std::int32_t likely_row = -1);
  /// For measurements: from now on, the text in the first slot has a state, whatever it contains.
  void suppose_text(const CellTable& table);

 private:
  /// A run of all these guesses begins with a token of each text, and may repeat a few.
  static constexpr std::int64_t kMoreThanGuesses = 4;
  static constexpr std::int32_t kStatesOfAText = 2;

  struct Token {
    CellId cell = kNoCell;
    std::int32_t position = -1;
    std::int32_t slot = 0;  // whose text placed it
  };
  /// A state that the latest run writes.
  struct Written {
    std::int32_t state;
    Token token;
  };
  /// A token in the tree of a run's tokens and of those between them and a kept state.
  struct Node {
    Token token;
    std::int32_t parent = -1;               ///< -1: it follows a kept state, or begins a text
    std::int32_t state = StateStep::kZero;  ///< then that state
    std::int32_t row = -1, input = -1;
    std::int32_t children = 0, first_child = -1, next_sibling = -1;
    std::int32_t keep = -1, aside = -1;
    std::array<std::int32_t, StateShape::kTaps> columns{};
  };

  void adopt();
  void forget(std::span<const CellId> cells);
  void find_latest(const CellTable& table);
  bool holds(const CellTable& table, std::int32_t sequence, const Token& token) const;
  bool in_text(const CellTable& table, const Token& token) const { return holds(table, texts_.text_of(token.slot), token); }
  bool in_guesses(const CellTable& table, const Token& token) const;
  std::int32_t find_before(const CellTable& table, std::span<const CellId> seen, Node& node);
  std::int32_t state_after(CellId cell) const;
  void add(Node node);
  void keep_states(const CellTable& table, std::int32_t likely_row);
  bool write(Node& node, std::int32_t state);
  std::int32_t most_lag(const CellTable& table, std::int32_t slot) const;
  std::int32_t free_state(const CellTable& table, std::int32_t slot, bool for_guess) const;
  bool is_in_use(std::int32_t state) const;
  bool is_latest(const Token& token) const;
  bool is_checkpoint(const CellTable& table, const Token& token) const;
  void keep_inputs(const CellTable& table);
  void make_room(const CellTable& table, std::size_t inputs);
  void find_columns(Node& node) const;
  void find_far_columns(std::size_t number);
  void order_steps();
  void add_step(std::int32_t node, std::int32_t load);

  const TextSlots texts_;
  std::vector<Token> states_;                     // by number: whose state it is
  std::vector<Token> inputs_;                     // by number: whose inputs they are
  std::vector<std::int32_t> input_of_, node_of_;  // by cell of the table; -1: none
  std::vector<std::int32_t> free_;                // inputs, the next one last
  std::vector<Token> latest_;                     // by slot: the token of its text after which there is the latest state
  std::vector<Written> writes_;                   // of the latest run
  std::vector<std::int32_t> text_kept_;           // by slot: the position of the text's token after which it does that; -1: none
  bool one_text_ = true;                          // the run has rows of no other
  bool written_ = false;                          // it has done so

  std::vector<Node> nodes_;
  std::vector<StateStep> steps_;
  std::vector<std::int32_t> far_of_nodes_, far_of_steps_;  // [nodes] or [steps][far_kept + 1]: StatePlan::far_columns
  std::vector<std::int32_t> free_aside_;
  StatePlan plan_;
};

}  // namespace yamata
