#include "cache/cell_table.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace yamata {
namespace {

void check(SequenceRange range, std::size_t sequences) {
  if (range.begin < 0 || range.begin >= range.end || static_cast<std::size_t>(range.end) > sequences) {
    throw std::out_of_range("cell table: no such sequences");
  }
}

}  // namespace

std::span<const CellId> BatchCells::visible(std::size_t row) const {
  const Run& run = runs_.at(row);
  return std::span(lists_).subspan(run.begin, run.count);
}

void BatchCells::clear() {
  cells_.clear();
  lists_.clear();
  runs_.clear();
}

CellTable::CellTable(std::int32_t cells, std::int32_t sequences)
    : sequences_(static_cast<std::size_t>(sequences)), holders_(static_cast<std::size_t>(cells), 0), free_(cells) {}

std::int32_t CellTable::cell_count() const { return static_cast<std::int32_t>(holders_.size()); }
std::int32_t CellTable::sequence_count() const { return static_cast<std::int32_t>(sequences_.size()); }
std::int32_t CellTable::free_cells() const { return free_; }

CellId CellTable::at(std::int32_t sequence, std::int32_t position) const {
  const auto& table = sequences_.at(static_cast<std::size_t>(sequence));
  if (position < 0 || static_cast<std::size_t>(position) >= table.size()) return kNoCell;
  return table[static_cast<std::size_t>(position)];
}

std::int32_t CellTable::end(std::int32_t sequence) const {
  return static_cast<std::int32_t>(sequences_.at(static_cast<std::size_t>(sequence)).size());
}

std::int32_t CellTable::held_by(std::span<const std::int32_t> sequences) const {
  std::vector<bool> held(holders_.size());
  for (const std::int32_t sequence : sequences) {
    for (const CellId cell : sequences_.at(static_cast<std::size_t>(sequence))) {
      if (cell != kNoCell) held[static_cast<std::size_t>(cell)] = true;
    }
  }
  return static_cast<std::int32_t>(std::ranges::count(held, true));
}

void CellTable::release(CellId cell) {
  if (cell == kNoCell || --holders_[static_cast<std::size_t>(cell)] > 0) return;
  ++free_;
  lowest_free_ = std::min(lowest_free_, cell);
}

void CellTable::hold(std::int32_t sequence, std::int32_t position, CellId cell) {
  auto& table = sequences_[static_cast<std::size_t>(sequence)];
  const auto p = static_cast<std::size_t>(position);
  if (p >= table.size()) {
    if (cell == kNoCell) return;
    table.resize(p + 1, kNoCell);
  }
  if (table[p] == cell) return;
  if (cell != kNoCell) ++holders_[static_cast<std::size_t>(cell)];
  release(table[p]);
  table[p] = cell;
}

void CellTable::check(std::span<const Placement> batch) const {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Placement& token = batch[i];
    yamata::check(token.sequences, sequences_.size());
    if (token.position < 0 || token.position == kUnbounded) throw std::out_of_range("cell table: bad position");
    if (token.parent < -1 || token.parent >= static_cast<std::int32_t>(i))
      throw std::out_of_range("cell table: a parent comes before its child");
  }
  if (batch.size() > static_cast<std::size_t>(free_)) throw std::length_error("cell table: too few free cells");
}

CellId CellTable::take_lowest_free() {
  while (holders_[static_cast<std::size_t>(lowest_free_)] > 0) ++lowest_free_;
  --free_;
  return lowest_free_++;
}

/// Begins the row's list of visible cells: its parent's list, or its first sequence's cells at lower positions. A row that continues the
/// row before shares that row's list.
void CellTable::view(std::span<const Placement> batch, std::size_t row, BatchCells& out) const {
  const Placement& token = batch[row];
  auto& lists = out.lists_;
  BatchCells::Run run{lists.size(), 0};
  const auto continues_last = [&] {
    if (row == 0 || token.parent >= 0) return false;
    const Placement& last = batch[row - 1];
    return last.parent == -1 && last.sequences.begin == token.sequences.begin && last.position + 1 == token.position;
  };
  if (continues_last()) {
    run = out.runs_.back();
  } else if (token.parent >= 0) {
    run = out.runs_[static_cast<std::size_t>(token.parent)];
    if (run.begin + run.count != lists.size()) {
      lists.reserve(lists.size() + run.count + 1);  // avoids a reallocation, which would invalidate the source of the copy
      const auto source = lists.begin() + static_cast<std::ptrdiff_t>(run.begin);
      run.begin = lists.size();
      std::copy_n(source, run.count, std::back_inserter(lists));
    }
  } else {
    const auto& table = sequences_[static_cast<std::size_t>(token.sequences.begin)];
    const std::size_t limit = std::min(static_cast<std::size_t>(token.position), table.size());
    std::copy_if(table.begin(), table.begin() + static_cast<std::ptrdiff_t>(limit), std::back_inserter(lists),
                 [](CellId c) { return c != kNoCell; });
    run.count = lists.size() - run.begin;
  }
  out.runs_.push_back(run);
}

void CellTable::place(std::span<const Placement> batch, BatchCells& out) {
  check(batch);
  out.clear();
  for (std::size_t row = 0; row < batch.size(); ++row) {
    view(batch, row, out);
    const CellId cell = take_lowest_free();
    out.lists_.push_back(cell);
    ++out.runs_.back().count;
    out.cells_.push_back(cell);
    for (std::int32_t s = batch[row].sequences.begin; s < batch[row].sequences.end; ++s) hold(s, batch[row].position, cell);
  }
}

void CellTable::copy(std::int32_t from, SequenceRange to, PositionRange positions) {
  yamata::check({from, from + 1}, sequences_.size());
  yamata::check(to, sequences_.size());
  for (std::int32_t s = to.begin; s < to.end; ++s) {
    if (s == from) continue;
    const std::size_t longest = std::max(sequences_[static_cast<std::size_t>(from)].size(), sequences_[static_cast<std::size_t>(s)].size());
    const auto end = static_cast<std::int32_t>(std::min(longest, static_cast<std::size_t>(std::max(positions.end, 0))));
    for (std::int32_t p = std::max(positions.begin, 0); p < end; ++p) hold(s, p, at(from, p));
  }
}

void CellTable::keep(SequenceRange sequences, PositionRange positions) {
  yamata::check(sequences, sequences_.size());
  const auto all = static_cast<std::int32_t>(sequences_.size());
  if (sequences.begin > 0) remove({0, sequences.begin}, {});
  if (sequences.end < all) remove({sequences.end, all}, {});
  remove(sequences, {0, positions.begin});
  remove(sequences, {positions.end, kUnbounded});
}

void CellTable::remove(SequenceRange sequences, PositionRange positions) {
  yamata::check(sequences, sequences_.size());
  for (std::int32_t s = sequences.begin; s < sequences.end; ++s) {
    auto& table = sequences_[static_cast<std::size_t>(s)];
    const auto end = static_cast<std::int32_t>(std::min(table.size(), static_cast<std::size_t>(std::max(positions.end, 0))));
    for (std::int32_t p = std::max(positions.begin, 0); p < end; ++p) hold(s, p, kNoCell);
    while (!table.empty() && table.back() == kNoCell) table.pop_back();
  }
}

void CellTable::clear() { remove({0, static_cast<std::int32_t>(sequences_.size())}, {}); }

}  // namespace yamata
