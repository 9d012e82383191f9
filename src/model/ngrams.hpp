#pragma once
// N-gram embeddings: a token has several rows of a table, whose numbers are hashes of the last tokens up to it.
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

struct NgramShape {
  std::int64_t layer = -1;    ///< that reads them
  std::int64_t size = 0;      ///< tokens of the longest; 0: the model has none
  std::int64_t heads = 0;     ///< rows of a token: for each size from 2 on as many
  std::int64_t head_dim = 0;  ///< floats of a row
  std::int64_t table_rows = 0;
  std::int64_t taps = 0;                              ///< of the convolution after them
  std::int32_t end = 0;                               ///< the token that ends a text: what comes before it counts as more of it
  std::vector<std::uint64_t> factors;                 ///< [size]: of tokens, the last one first
  std::vector<std::uint64_t> first_rows, row_counts;  ///< [heads]: the part of the table that a row is in

  bool any() const { return size > 0; }
  /// Floats of a token, of all its rows.
  std::int64_t dim() const { return heads * head_dim; }
  /// Columns before a token's own that its convolution reads.
  std::int64_t kept() const { return (taps - 1) * size; }
};

/// The last tokens before each cell's, and the numbers of the rows of the table that follow from them.
class Ngrams {
 public:
  /// `cells`: of the cell table. The shape must outlive this.
  Ngrams(const NgramShape& shape, std::int32_t cells) : shape_(shape), tokens_(static_cast<std::size_t>(cells)) {}

  /// Before a run: `cells` get its tokens.
  void place(std::span<const std::int32_t> cells, std::span<const std::int32_t> tokens);
  /// Adds the numbers of a token's rows, [heads]. `seen`: the cells up to its own, in position order.
  void append_rows(std::span<const std::int32_t> seen, std::vector<std::int32_t>& rows) const;

 private:
  const NgramShape& shape_;
  std::vector<std::int32_t> tokens_;  // by cell
};

}  // namespace yamata
