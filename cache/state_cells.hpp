#pragma once
// Which states there are, and how a run's tokens get theirs. A state is that after a cell's token, and is shared by all that follow it.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/cell_table.hpp"
#include "cache/state_store.hpp"
#include "node/state_op.hpp"

namespace yamata {

/// A state cannot be cut: of a text, only the state after one of its last tokens is kept, and of later tokens, what they do to it. A run
/// begins at the nearest kept state, repeats the tokens from there to its own (with the same bits), and keeps one state, in other memory:
/// that after the last token of the text, or, if there is memory that no text needs, that after a guess that is likely to become text. Then
/// the runs that follow need not repeat the guesses up to there; if it is rejected, they begin at the text's state, which is still there.
///
/// Further states are those of kept texts: each ends in a sequence of its own, the last ones of the table. The state after its last token
/// stays while that sequence holds it, if no run came between the one that wrote it and the operation that copied the text there.
class StateCells {
 public:
  /// `table_cells`: number of cells of the cell table. Beyond kStates, there are as many states as kept texts.
  StateCells(std::int32_t table_cells, StateCounts counts);

  /// Number of inputs needed for `guesses` guesses in the table, and accepted ones of which no run has written the state; with as many for
  /// tokens of the text up to a guess whose state was kept instead of theirs. All other tokens of a text are in the state that their run
  /// writes, for which they need no inputs.
  static std::int64_t enough(std::int64_t guesses) { return guesses > 0 ? 2 * guesses + kMoreThanGuesses : 1; }
  /// Number of states in memory: the text's, and the one that a run writes.
  static constexpr std::int32_t kStates = 2;

  /// A run sets this to true when its last layer has written its state.
  bool* written() { return &written_; }
  /// Plans a run whose tokens have been placed in the table, when the run before has ended. The text is sequence 0, and no token is placed
  /// before its end. `likely_row`: as in StageBatch. Throws ClusterError if the text has no state from which this run could begin, or if
  /// more inputs are needed than there are.
  const StatePlan& plan(const CellTable& table, std::span<const Placement> batch, const BatchCells& cells, std::int32_t likely_row = -1);
  /// For measurements: from now on, the text in the table has a state, whatever it contains.
  void suppose_text(const CellTable& table);

 private:
  /// A run of all these guesses begins with a token of the text, and may repeat a few.
  static constexpr std::int64_t kMoreThanGuesses = 4;

  struct Token {
    CellId cell = kNoCell;
    std::int32_t position = -1;
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
  std::int32_t find_before(const CellTable& table, const Placement& token, std::span<const CellId> seen, Node& node);
  std::int32_t state_after(CellId cell) const;
  void add(Node node);
  void keep_state(const CellTable& table, std::span<const Placement> batch, std::int32_t likely_row);
  bool keep_state_of(Node& node, std::int32_t state);
  Token latest_of_text(const CellTable& table) const;
  std::int32_t lag() const;
  std::int32_t free_state(const CellTable& table, bool for_guess) const;
  std::int32_t kept_texts() const { return counts_.states - kStates; }
  bool is_kept_text(const CellTable& table, const Token& token) const;
  bool is_current(const CellTable& table, const Token& token) const;
  void keep_inputs(const CellTable& table, std::span<const Placement> batch);
  void make_room(const CellTable& table, std::size_t inputs);
  void find_columns(Node& node) const;
  void order_steps();
  void add_step(std::int32_t node, std::int32_t load);

  StateCounts counts_;
  std::vector<Token> states_;                     // by number: whose state it is
  std::vector<Token> inputs_;                     // by number: whose inputs they are
  std::vector<std::int32_t> input_of_, node_of_;  // by cell of the table; -1: none
  std::vector<std::int32_t> free_;                // inputs, the next one last
  std::optional<std::int32_t> kept_;              // the state that the latest run writes
  Token kept_token_;
  bool keeps_text_ = false;  // it is that of the text's last token
  bool written_ = false;     // it has done so

  std::vector<Node> nodes_;
  std::vector<StateStep> steps_;
  std::vector<std::int32_t> free_aside_;
  StatePlan plan_;
};

}  // namespace yamata
