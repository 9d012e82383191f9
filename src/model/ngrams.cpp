#include "src/model/ngrams.hpp"

namespace yamata {

void Ngrams::place(std::span<const std::int32_t> cells, std::span<const std::int32_t> tokens) {
  for (std::size_t row = 0; row < cells.size(); ++row) tokens_[static_cast<std::size_t>(cells[row])] = tokens[row];
}

/// The hash of an n-gram is that of the one before it, and one factor more. The token itself may be that which ends texts.
void Ngrams::append_rows(std::span<const std::int32_t> seen, std::vector<std::int32_t>& rows) const {
  const auto size = static_cast<std::size_t>(shape_.size), each = static_cast<std::size_t>(shape_.heads) / (size - 1);
  std::uint64_t hash = 0;
  bool ended = false;
  for (std::size_t back = 0; back < size; ++back) {
    std::int32_t token = shape_.end;
    if (!ended && back < seen.size()) token = tokens_[static_cast<std::size_t>(seen[seen.size() - 1 - back])];
    ended = ended || back + 1 >= seen.size() || (back > 0 && token == shape_.end);
    hash ^= static_cast<std::uint64_t>(token) * shape_.factors[back];
    for (std::size_t head = (back - 1) * each; back > 0 && head < back * each; ++head)
      rows.push_back(static_cast<std::int32_t>(shape_.first_rows[head] + hash % shape_.row_counts[head]));
  }
}

}  // namespace yamata
