#pragma once
// A model whose output is a function of the whole prefix, without real computation: one stale, missing or wrong cell on any stage changes
// the text. For simulating whole clusters in one thread, with any given speed.
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "cache/window_cells.hpp"
#include "src/model/stage_model.hpp"
#include "src/simulation/state_table.hpp"
#include "src/simulation/virtual_exchange.hpp"
#include "src/simulation/width_cost.hpp"

namespace yamata::simulation {

std::uint64_t mix(std::uint64_t a, std::uint64_t b);
/// 53 bits as a number in [0, 1).
double share(std::uint64_t bits);
/// The hash in a token's row: of its token and position.
std::uint64_t token_hash(std::int32_t token, std::int32_t position);
/// The hash chained over a text; the model's logits after the text depend on it.
std::uint64_t prefix_hash(std::span<const std::int32_t> text);

/// A row's activations, and its features after the last stage: the hash of its token, and that of the prefix up to it.
std::vector<float> row_of(std::uint64_t token, std::uint64_t prefix);
/// Its features at a stage's layer, whose number is the stage's, or kOutputFeatures.
std::vector<float> features_of(std::uint64_t token, std::uint64_t prefix, std::int32_t layer);

/// The hashes in a row of activations, or of features after the last stage.
struct RowHashes {
  std::uint64_t token, prefix;
};
RowHashes hashes_of(std::span<const float> row);

struct TableShape {
  std::int32_t stage = 0, stages = 1, cells = 0, sequences = 1, vocabulary = 8;
  std::int32_t window = 0, window_cells = 0;          ///< 0: none; else the contents of WindowCells are checked, too
  std::int32_t state_inputs = 0;                      ///< 0: none; else a layer with states keeps so many tokens' inputs
  TextSlots texts{};                                  ///< which sequences are whose
  int operations = 1;                                 ///< per run
  std::int32_t member = 0, members = 1;               ///< of the ranks that share the stage
  VirtualExchange* exchange = nullptr;                ///< their exchange after every operation
  std::int64_t one_row_ns = 0;                        ///< time of a one-row run, on units with virtual time
  WidthCost width{};                                  ///< cost of additional rows
  std::int64_t exchange_ns = 0, exchange_row_ns = 0;  ///< time of a run's exchanges, and the additional time per row
  /// The model itself: fills in the logits after the prefix of this hash.
  std::function<void(std::uint64_t prefix, std::span<float> logits)> logits;
};

/// The compute unit of a table model: determines when a run ends, and whether it was completed.
class TableUnit : public ComputeUnit {
 public:
  /// Begins a run of `rows` rows; `done(completed)` is called at its end or at the stop, before finished() turns true.
  virtual void begin(const TableShape& shape, std::size_t rows, const std::atomic<bool>* stop,
                     std::function<void(bool completed)> done) = 0;

  void start(std::span<const Op>, const std::atomic<bool>*) override {}
  std::size_t packed_bytes(const Matrix&) const override { return 0; }
  std::string isa() const override { return "table"; }
  std::string device() const override { return "table"; }
  int threads() const override { return 1; }
};

/// The common part of the table models: cells, and a unit that determines when a run ends.
class TableStage : public StageModel {
 public:
  TableStage(TableShape shape, TableUnit& unit) : shape_(std::move(shape)), unit_(unit), cells_(shape_.cells, shape_.sequences) {}

  void load(const std::atomic<bool>* stop) final {
    unit_.begin(shape_, 0, stop, [](bool) {});
  }
  std::size_t load_steps() const final { return 1; }
  ComputeUnit& unit() final { return unit_; }
  const ComputeUnit& unit() const final { return unit_; }
  CellTable& cells() final { return cells_; }
  std::span<const float> logits() const final { return logits_; }
  std::int64_t vocabulary() const final { return shape_.vocabulary; }

 protected:
  TableShape shape_;
  TableUnit& unit_;
  CellTable cells_;
  BatchCells placed_;
  std::vector<float> logits_;
};

class TableModel : public TableStage {
 public:
  /// Floats of a row's activations: the hashes of its token and of its prefix.
  static constexpr std::int64_t kWidth = 8;

  TableModel(TableShape shape, TableUnit& unit);

  void start(const StageBatch& batch, const std::atomic<bool>* stop) override;
  std::span<const float> activations() const override { return rows_; }
  /// See features_of.
  std::span<const float> features() const override { return features_; }
  std::int64_t width() const override { return kWidth; }
  Interval logit_tokens() const override {
    return {shape_.vocabulary * shape_.member / shape_.members, shape_.vocabulary * (shape_.member + 1) / shape_.members};
  }
  int members() const override { return shape_.members; }
  bool has_states() const override { return states_.has_value(); }
  std::int32_t window() const override { return window_cells_ ? shape_.window : 0; }
  LayerRange layers() const override { return {shape_.stage, shape_.stage + 1}; }
  bool first() const override { return shape_.stage == 0; }
  bool last() const override { return shape_.stage + 1 == shape_.stages; }
  /// The contents of a cell on this stage, without the stage's own salt.
  std::uint64_t content(CellId cell) const { return contents_[static_cast<std::size_t>(cell)] ^ salt_; }

 private:
  void compute(bool completed);
  std::uint64_t prefix_of(std::size_t row) const;

  std::optional<WindowCells> window_cells_;
  BatchCells in_window_;
  std::optional<StateTable> states_;
  std::uint64_t salt_;
  std::vector<std::uint64_t> contents_, window_contents_;        // per cell
  std::vector<std::uint64_t> tokens_, prefixes_, own_prefixes_;  // per row; the first two as received
  std::vector<std::int32_t> logit_rows_, feature_rows_, feature_layers_;
  std::vector<float> rows_, features_, all_logits_;
};

}  // namespace yamata::simulation
