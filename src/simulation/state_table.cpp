#include "src/simulation/state_table.hpp"

#include <algorithm>

#include "src/simulation/table_model.hpp"

namespace yamata::simulation {
namespace {

constexpr std::uint64_t kEmptyState = 1;  // before a text, as in prefix_hash
constexpr std::uint64_t kUnwritten = 0xdeadbeef;

std::size_t number(std::int32_t at) { return static_cast<std::size_t>(at); }

}  // namespace

StateTable::StateTable(std::int32_t cells, std::int32_t inputs, const TextSlots& texts)
    : cells_(cells, inputs, texts),
      states_(number(StateCells::states(texts)), kUnwritten),
      columns_(number(inputs + StateShape::kColumns * StateCells::states(texts)), kUnwritten),
      updates_(number(inputs), kUnwritten) {}

void StateTable::begin(const CellTable& table, std::span<const Placement> batch, const BatchCells& cells, std::int32_t likely_row) {
  plan_ = &cells_.plan(table, batch, cells, likely_row);
}

void StateTable::compute(std::span<const std::uint64_t> tokens, bool completed) {
  rows_.assign(tokens.size(), {});
  aside_.assign(number(plan_->aside), kUnwritten);
  for (const StateStep& step : plan_->steps) convolve(step, tokens);
  apply_rule(tokens);
  if (completed || mix(tokens.back(), tokens.size()) % 2 == 0) {
    *cells_.written() = true;
    return;
  }
  // A stopped run leaves in an undefined state what it was to write.
  for (const StateStep& step : plan_->steps) {
    if (step.keep >= 0) states_[number(step.keep)] = columns_[number(plan_->column_of(step.keep, StateShape::kColumns))] = kUnwritten;
    if (step.row >= 0 && step.input >= 0) columns_[number(step.input)] = updates_[number(step.input)] = kUnwritten;
  }
}

void StateTable::convolve(const StateStep& step, std::span<const std::uint64_t> tokens) {
  const auto column = [&](std::int32_t at) {
    if (at >= 0) return columns_[number(at)];
    return at == StateStep::kZero ? 0 : tokens[number(StateStep::row_of(at))];
  };
  if (step.row >= 0) {
    std::ranges::transform(step.columns, rows_[number(step.row)].columns.begin(), column);
    if (step.input >= 0) columns_[number(step.input)] = updates_[number(step.input)] = tokens[number(step.row)];
  }
  if (step.keep < 0) return;
  for (std::int32_t back = 1; back <= StateShape::kColumns; ++back)
    columns_[number(plan_->column_of(step.keep, back))] = column(step.columns[number(back - 1)]);
}

void StateTable::apply_rule(std::span<const std::uint64_t> tokens) {
  std::uint64_t state = kUnwritten;
  for (const StateStep& step : plan_->steps) {
    if (step.load == StateStep::kZero) state = kEmptyState;
    if (step.load >= 0) state = step.load < plan_->states ? states_[number(step.load)] : aside_[number(step.load - plan_->states)];
    state = mix(state, step.row >= 0 ? tokens[number(step.row)] : updates_[number(step.input)]);
    if (step.keep >= 0) states_[number(step.keep)] = state;
    if (step.aside >= 0) aside_[number(step.aside)] = state;
    if (step.row >= 0) rows_[number(step.row)].state = state;
  }
}

bool StateTable::is_right(std::size_t row, std::span<const std::uint64_t> seen) const {
  Row right{.state = kEmptyState};
  for (const std::uint64_t token : seen) right.state = mix(right.state, token);
  std::copy_n(seen.rbegin(), std::min(seen.size(), right.columns.size()), right.columns.begin());
  return rows_[row] == right;
}

}  // namespace yamata::simulation
