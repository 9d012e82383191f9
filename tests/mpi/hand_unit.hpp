#pragma once
// A compute unit whose runs end when the test says so.
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "src/simulation/table_model.hpp"

namespace yamata::test {

/// A run takes 10 ms of the test's clock, and `row_ns` for each row.
class HandUnit final : public simulation::TableUnit {
 public:
  explicit HandUnit(std::int64_t& now, std::int64_t row_ns = 0) : now_(now), row_ns_(row_ns) {}
  void begin(const simulation::TableShape&, std::size_t rows, const std::atomic<bool>*, std::function<void(bool)> done) override {
    widths.push_back(rows);
    done_ = std::move(done);
  }
  /// False if nothing is being computed.
  bool finish() {
    if (!done_) return false;
    constexpr std::int64_t kRunNs = 10'000'000;
    now_ += kRunNs + row_ns_ * static_cast<std::int64_t>(widths.back());
    ++progress_;
    std::exchange(done_, nullptr)(true);
    return true;
  }
  bool finished() const override { return !done_; }
  bool wait_for(std::chrono::microseconds) override { return !done_; }
  std::uint64_t progress() const override { return progress_; }
  double busy_seconds() const override { return 0; }

  std::vector<std::size_t> widths;  // rows of the runs computed so far, including the loading

 private:
  std::int64_t& now_;
  const std::int64_t row_ns_;
  std::function<void(bool)> done_;
  std::uint64_t progress_ = 0;
};

}  // namespace yamata::test
