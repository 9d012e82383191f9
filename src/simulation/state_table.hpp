#pragma once
// The states of a simulated layer: which ones there are, and what each step reads, are those of real layers; a state is a hash.
#include <cstdint>
#include <span>
#include <vector>

#include "cache/state_cells.hpp"

namespace yamata::simulation {

/// A layer whose state after a token is the hash of all tokens up to it, and whose convolution reads hashes of tokens. What a run reads is
/// in these places because of earlier runs, in the order in which a compute unit reads and writes them.
class StateTable {
 public:
  /// `cells`: of the cell table; `inputs`: of tokens that are kept.
  StateTable(std::int32_t cells, std::int32_t inputs, const TextSlots& texts);

  /// Plans a run whose tokens have been placed.
  void begin(const CellTable& table, std::span<const Placement> batch, const BatchCells& cells, std::int32_t likely_row);
  /// The end of that run, with the hash of each row's token. If it was not `completed`, it was stopped before its layers had written their
  /// states, or after.
  void compute(std::span<const std::uint64_t> tokens, bool completed);
  /// Whether a row has read what it should, if it sees the tokens of these hashes, with its own as the last one.
  bool is_right(std::size_t row, std::span<const std::uint64_t> seen) const;

 private:
  struct Row {
    std::uint64_t state = 0;
    std::array<std::uint64_t, StateShape::kTaps> columns{};
    friend bool operator==(const Row&, const Row&) = default;
  };
  void convolve(const StateStep& step, std::span<const std::uint64_t> tokens);
  void apply_rule(std::span<const std::uint64_t> tokens);

  StateCells cells_;
  const StatePlan* plan_ = nullptr;
  std::vector<std::uint64_t> states_, columns_, updates_;  // as in StateMemory
  std::vector<std::uint64_t> aside_;
  std::vector<Row> rows_;
};

}  // namespace yamata::simulation
