#pragma once
// A model that is a small random function of the whole prefix: one stale, missing or foreign cell on any stage changes the text.
#include <cstdint>
#include <functional>
#include <vector>

#include "src/model/stage_model.hpp"

namespace yamata::test {

std::uint64_t mix(std::uint64_t a, std::uint64_t b);
/// What the row of a token carries: its token and position.
std::uint64_t token_hash(std::int32_t token, std::int32_t position);
/// Logits after a prefix, given the hash chained over its tokens.
std::vector<float> table_logits(std::uint64_t prefix_hash, std::int32_t vocabulary, std::uint64_t seed);

/// Computes one operation whenever it is told to; what is left undone when a stop is raised stays undone.
class SteppedUnit final : public ComputeUnit {
 public:
  /// Begins `operations` steps; `done(completed)` runs after the last of them or at the stop.
  void begin(int operations, const std::atomic<bool>* stop, std::function<void(bool completed)> done);
  /// One operation; nothing where the unit is idle.
  void tick();
  bool busy() const { return left_ > 0; }

  void start(std::span<const Op>, const std::atomic<bool>*) override {}
  bool finished() const override { return !busy(); }
  bool wait_for(std::chrono::microseconds) override {
    tick();
    return !busy();
  }
  std::uint64_t progress() const override { return progress_; }
  double busy_seconds() const override { return 0; }
  std::string isa() const override { return "table"; }
  int threads() const override { return 1; }

 private:
  int left_ = 0;
  const std::atomic<bool>* stop_ = nullptr;
  std::function<void(bool)> done_;
  std::uint64_t progress_ = 0;
};

struct TableShape {
  std::int32_t stage = 0, stages = 1, cells = 0, sequences = 1, vocabulary = 8;
  std::uint64_t seed = 0;   ///< of the function
  double disagreement = 0;  ///< share of prefixes after which a draft says something else
  std::uint64_t draft_seed = 0;
  int operations = 1;  ///< per run
};

class TableModel final : public StageModel {
 public:
  TableModel(const TableShape& shape, SteppedUnit& unit);

  void load(const std::atomic<bool>* stop) override {
    unit_.begin(1, stop, [](bool) {});
  }
  std::size_t load_steps() const override { return 1; }
  void start(const StageBatch& batch, const std::atomic<bool>* stop) override;
  ComputeUnit& unit() override { return unit_; }
  const ComputeUnit& unit() const override { return unit_; }
  std::span<const float> activations() const override { return rows_; }
  std::span<const float> logits() const override { return logits_; }
  CellTable& cells() override { return cells_; }
  std::int64_t width() const override { return 8; }
  LayerRange layers() const override { return {shape_.stage, shape_.stage + 1}; }
  bool first() const override { return shape_.stage == 0; }
  bool last() const override { return shape_.stage + 1 == shape_.stages; }
  /// What a cell holds on this stage, without the stage's own salt.
  std::uint64_t content(CellId cell) const { return contents_[static_cast<std::size_t>(cell)] ^ salt_; }

 private:
  void compute(bool completed);

  TableShape shape_;
  SteppedUnit& unit_;
  CellTable cells_;
  BatchCells placed_;
  std::uint64_t salt_;
  std::vector<std::uint64_t> contents_;           // per cell
  std::vector<std::uint64_t> tokens_, prefixes_;  // per row, as they came in
  std::vector<std::int32_t> wanted_;
  std::vector<float> rows_, logits_;
};

}  // namespace yamata::test
