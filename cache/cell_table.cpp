#include "cache/cell_table.hpp"

#include <algorithm>
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

void CellTable::place(std::span<const Placement> batch, BatchCells& out) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Placement& token = batch[i];
    check(token.sequences, sequences_.size());
    if (token.position < 0 || token.position == kUnbounded) throw std::out_of_range("cell table: bad position");
    if (token.parent < -1 || token.parent >= static_cast<std::int32_t>(i)) throw std::out_of_range("cell table: a parent comes before its child");
  }
  if (batch.size() > static_cast<std::size_t>(free_)) throw std::length_error("cell table: too few free cells");

  out.cells_.clear();
  out.lists_.clear();
  out.runs_.clear();
  for (const Placement& token : batch) {
    while (holders_[static_cast<std::size_t>(lowest_free_)] > 0) ++lowest_free_;
    const CellId cell = lowest_free_++;
    --free_;
    // What the row sees: its parent's view, or its first sequence's cells at lower positions; then itself.
    const auto& table = sequences_[static_cast<std::size_t>(token.sequences.begin)];
    const std::size_t limit = std::min(static_cast<std::size_t>(token.position), table.size());
    const std::size_t list_end = out.lists_.size();
    BatchCells::Run run{list_end, 0};
    if (token.parent >= 0) {
      run = out.runs_[static_cast<std::size_t>(token.parent)];
      if (run.begin + run.count != list_end) {
        out.lists_.reserve(list_end + run.count + 1);
        std::copy_n(out.lists_.begin() + static_cast<std::ptrdiff_t>(run.begin), run.count, std::back_inserter(out.lists_));
        run.begin = list_end;
      }
    } else {
      const BatchCells::Run before = out.runs_.empty() ? run : out.runs_.back();
      const bool extends = !out.runs_.empty() && &token != batch.data() && (&token)[-1].sequences.begin == token.sequences.begin &&
                           (&token)[-1].parent == -1 && (&token)[-1].position + 1 == token.position;
      if (extends) {
        run = before;
      } else {
        std::copy_if(table.begin(), table.begin() + static_cast<std::ptrdiff_t>(limit), std::back_inserter(out.lists_), [](CellId c) { return c != kNoCell; });
        run.count = out.lists_.size() - run.begin;
      }
    }
    out.lists_.push_back(cell);
    ++run.count;
    out.runs_.push_back(run);
    out.cells_.push_back(cell);
    for (std::int32_t s = token.sequences.begin; s < token.sequences.end; ++s) hold(s, token.position, cell);
  }
}

void CellTable::copy(std::int32_t from, SequenceRange to, PositionRange positions) {
  check({from, from + 1}, sequences_.size());
  check(to, sequences_.size());
  for (std::int32_t s = to.begin; s < to.end; ++s) {
    if (s == from) continue;
    const std::size_t longest = std::max(sequences_[static_cast<std::size_t>(from)].size(), sequences_[static_cast<std::size_t>(s)].size());
    const auto end = static_cast<std::int32_t>(std::min(longest, static_cast<std::size_t>(std::max(positions.end, 0))));
    for (std::int32_t p = std::max(positions.begin, 0); p < end; ++p) hold(s, p, at(from, p));
  }
}

void CellTable::keep(SequenceRange sequences, PositionRange positions) {
  check(sequences, sequences_.size());
  const auto all = static_cast<std::int32_t>(sequences_.size());
  if (sequences.begin > 0) remove({0, sequences.begin}, {});
  if (sequences.end < all) remove({sequences.end, all}, {});
  remove(sequences, {0, positions.begin});
  remove(sequences, {positions.end, kUnbounded});
}

void CellTable::remove(SequenceRange sequences, PositionRange positions) {
  check(sequences, sequences_.size());
  for (std::int32_t s = sequences.begin; s < sequences.end; ++s) {
    auto& table = sequences_[static_cast<std::size_t>(s)];
    const auto end = static_cast<std::int32_t>(std::min(table.size(), static_cast<std::size_t>(std::max(positions.end, 0))));
    for (std::int32_t p = std::max(positions.begin, 0); p < end; ++p) hold(s, p, kNoCell);
    while (!table.empty() && table.back() == kNoCell) table.pop_back();
  }
}

void CellTable::clear() { remove({0, static_cast<std::int32_t>(sequences_.size())}, {}); }

}  // namespace yamata
