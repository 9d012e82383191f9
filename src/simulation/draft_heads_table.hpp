#pragma once
// Draft heads as a table: their guesses are a function of the text, which they know from the features of the previous tokens and from what
// their cells store. For simulating whole clusters in one thread.
#include <cstdint>
#include <span>
#include <vector>

#include "src/simulation/table_model.hpp"

namespace yamata::simulation {

/// Reads the table target's features at some of its layers, the last of which is after the output norm. Throws std::logic_error if a row's
/// features are not those of the token before it, or if a cell holds a guess instead of the text; in the real program, such errors would
/// only make guesses worse.
class DraftHeadsTable final : public TableStage {
 public:
  DraftHeadsTable(TableShape shape, std::vector<std::int32_t> feature_layers, TableUnit& unit);

  void start(const StageBatch& batch, const std::atomic<bool>* stop) override;
  std::int64_t features_read() const override { return static_cast<std::int64_t>(layers_.size()) * TableModel::kWidth; }
  std::span<const float> activations() const override { return {}; }
  std::span<const float> features() const override { return {}; }
  std::int64_t width() const override { return TableModel::kWidth; }
  LayerRange layers() const override { return {0, 1}; }
  bool first() const override { return true; }
  bool last() const override { return true; }

 private:
  /// The data that a row has stored in its cell.
  struct Kept {
    std::uint64_t prefix = 0;  // of the text up to its token
    bool text = false;         // it came with features
    std::int32_t position = -1;
  };
  std::uint64_t prefix_before(const StageBatch& batch, std::size_t row) const;
  std::uint64_t told_prefix(std::span<const float> features) const;

  const std::vector<std::int32_t> layers_;
  std::vector<Kept> kept_;
};

}  // namespace yamata::simulation
