#pragma once
// Memory of a layer with states, as tests of cache/state_cells.hpp can read it.
#include <vector>

#include "cache/state_store.hpp"

namespace yamata {

inline constexpr std::int32_t kFar = 6;  ///< columns that a convolution reaches back

/// Here, a state is the text of its tokens, and a convolution's column is a token.
using State = std::vector<int>;

/// Memory of one layer, and runs of plans on it, as a compute unit would do them.
struct Layer {
  StateCounts counts;
  std::vector<State> states;
  std::vector<int> columns, updates, far;  // far: of a convolution that reaches far back

  explicit Layer(StateCounts its_counts)
      : counts(its_counts),
        states(static_cast<std::size_t>(counts.states)),
        columns(static_cast<std::size_t>(counts.inputs + StateShape::kColumns * counts.states)),
        updates(static_cast<std::size_t>(counts.inputs)),
        far(static_cast<std::size_t>(counts.inputs + kFar * counts.states)) {}

  static int column(const std::vector<int>& memory, std::int32_t number, const std::vector<int>& tokens) {
    if (number >= 0) return memory[static_cast<std::size_t>(number)];
    return number == StateStep::kZero ? 0 : tokens[static_cast<std::size_t>(StateStep::kZero - 1 - number)];
  }

  /// The state after each row, and the columns that its convolutions read.
  struct Row {
    State state, columns, far;
  };
  void read_and_keep_far(const StatePlan& plan, std::size_t number, const std::vector<int>& tokens, std::vector<Row>& rows) {
    const StateStep& step = plan.steps[number];
    const std::int32_t* numbers = plan.far_columns_of(number);
    for (std::int32_t back = 0; step.row >= 0 && back <= kFar; ++back)
      rows[static_cast<std::size_t>(step.row)].far.push_back(column(far, numbers[back], tokens));
    if (step.row >= 0 && step.input >= 0) far[static_cast<std::size_t>(step.input)] = tokens[static_cast<std::size_t>(step.row)];
    for (std::int32_t back = 1; step.keep >= 0 && back <= kFar; ++back)
      far[static_cast<std::size_t>(plan.far_column_of(step.keep, back))] = column(far, numbers[back - 1], tokens);
  }
  std::vector<Row> run(const StatePlan& plan, const std::vector<int>& tokens) {
    std::vector<Row> rows(tokens.size());
    for (const StateStep& step : plan.steps) {
      if (step.row >= 0) {
        for (const std::int32_t number : step.columns)
          rows[static_cast<std::size_t>(step.row)].columns.push_back(column(columns, number, tokens));
      }
      if (step.row >= 0 && step.input >= 0) {
        columns[static_cast<std::size_t>(step.input)] = updates[static_cast<std::size_t>(step.input)] =
            tokens[static_cast<std::size_t>(step.row)];
      }
      if (step.keep < 0) continue;
      for (std::int32_t back = 1; back <= StateShape::kColumns; ++back) {
        columns[static_cast<std::size_t>(plan.column_of(step.keep, back))] =
            column(columns, step.columns[static_cast<std::size_t>(back - 1)], tokens);
      }
    }
    for (std::size_t step = 0; step < plan.steps.size(); ++step) read_and_keep_far(plan, step, tokens, rows);
    std::vector<State> aside(static_cast<std::size_t>(plan.aside));
    State current;
    for (const StateStep& step : plan.steps) {
      if (step.load == StateStep::kZero) current.clear();
      if (step.load >= 0)
        current = step.load < plan.states ? states[static_cast<std::size_t>(step.load)]
                                          : aside[static_cast<std::size_t>(step.load - plan.states)];
      current.push_back(step.row >= 0 ? tokens[static_cast<std::size_t>(step.row)] : updates[static_cast<std::size_t>(step.input)]);
      if (step.keep >= 0) states[static_cast<std::size_t>(step.keep)] = current;
      if (step.aside >= 0) aside[static_cast<std::size_t>(step.aside)] = current;
      if (step.row >= 0) rows[static_cast<std::size_t>(step.row)].state = current;
    }
    return rows;
  }
};

}  // namespace yamata
