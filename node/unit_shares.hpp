#pragma once
// Which share of an operation each unit of a machine gets: from measured time, so that none waits for another (Ghidorah's ARCA, while
// running).
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

/// What the best shares of an operation depend on.
struct WorkKind {
  enum class What : std::uint8_t { kProduct, kAttention };
  What what = What::kProduct;
  std::int64_t outputs = 0, inputs = 0;  ///< of a product: rows of its matrices, and columns; of attention: heads, and their size
  int width_class = 0;                   ///< see width_class_of
  int context = 0;                       ///< of attention: see context_bucket_of
  friend auto operator<=>(const WorkKind&, const WorkKind&) = default;
};

/// 1, 2 to 4, 5 to 8, 9 to 16 rows, or more.
int width_class_of(std::int64_t rows);
/// The power of two nearest above so many cells, from 16 to 2048.
int context_bucket_of(std::int64_t cells);

class UnitShares {
 public:
  /// A number for work that nothing is learned of.
  static constexpr int kOther = 0;

  /// Begins with these shares, of any sum. `adapts`: they follow measured time.
  UnitShares(std::vector<double> shares, bool adapts);

  /// The work's number, from 1 on.
  int label(const WorkKind& kind);
  /// For the work of that number; they add up to 1.
  std::span<const double> of(int label) const { return works_[static_cast<std::size_t>(label)].shares; }
  std::size_t labels() const { return works_.size(); }
  const WorkKind& kind(int label) const { return works_[static_cast<std::size_t>(label)].kind; }
  /// Begins work of that kind with these.
  void set(const WorkKind& kind, std::span<const double> shares);
  /// Begins all work anew with the shares of the beginning.
  void forget() { works_.resize(1); }
  /// Which part of the work each unit has really been given; cuts have a grain.
  void given(int label, std::span<const double> fractions);
  /// A run ended in which each unit has computed so long at that work. `now_s`: of a clock that goes on.
  void computed(int label, std::span<const double> seconds, double now_s);
  /// All work together, by the time it has taken.
  std::vector<double> overall() const;

 private:
  struct Work {
    WorkKind kind;
    std::vector<double> shares, fractions;
    std::vector<double> work, seconds;  // what of late was done, in what time: a fading sum
    double last_s = 0, total_s = 0;
  };
  void follow(Work& work) const;

  const bool adapts_;
  std::vector<Work> works_;
};

}  // namespace yamata
