#pragma once
// The share of each operation that a unit of a machine gets. Shares follow measured time, so that no unit waits for another (Ghidorah's
// ARCA, at run time).
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

/// 1, 2 to 4, 5 to 8, 9 to 16, 17 to 32 rows, or more.
int width_class_of(std::int64_t rows);
/// This number of cells, rounded up to a power of two from 16 to 2048.
int context_bucket_of(std::int64_t cells);

class UnitShares {
 public:
  /// The number for work whose shares are not adapted.
  static constexpr int kOther = 0;

  /// Starts with these shares, with any sum. `adapts`: shares follow measured time.
  UnitShares(std::vector<double> shares, bool adapts);

  /// The work's number, from 1 on.
  int label(const WorkKind& kind);
  /// The shares for the work with this number; they add up to 1.
  std::span<const double> of(int label) const { return works_[static_cast<std::size_t>(label)].shares; }
  std::size_t labels() const { return works_.size(); }
  const WorkKind& kind(int label) const { return works_[static_cast<std::size_t>(label)].kind; }
  /// Sets the initial shares for this kind of work.
  void set(const WorkKind& kind, std::span<const double> shares);
  /// Resets all work to the initial shares.
  void forget() { works_.resize(1); }
  /// Records the share of the work that each unit really got; divisions have a grain.
  void given(int label, std::span<const double> fractions);
  /// Records a run's compute time of each unit for this work. `now_s`: time of a monotonic clock.
  void computed(int label, std::span<const double> seconds, double now_s);
  /// The shares of all work together, weighted by time.
  std::vector<double> overall() const;

 private:
  struct Work {
    WorkKind kind;
    std::vector<double> shares, fractions;
    std::vector<double> work, seconds;  // recent work and its time: fading sums
    double last_s = 0, total_s = 0;
    int without = 0;  // runs, one after another, in which some unit had none of the work
  };
  void retry(Work& work) const;
  void follow(Work& work) const;

  const bool adapts_;
  std::vector<Work> works_;
};

}  // namespace yamata
