#pragma once
// A source that checks the features that it receives.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/simulation/table_model.hpp"
#include "src/speculation/guess_source.hpp"

namespace yamata::test {

/// Does not guess; records the features that it receives.
class FeatureReader final : public GuessSource {
 public:
  FeatureReader(int index, std::vector<std::int32_t> layers) : GuessSource(index), layers_(std::move(layers)) {}
  void begin(std::uint64_t) override { rows_.clear(); }
  bool guess(TokenTree&, std::span<const std::int32_t>, const GuessDemand&) override { return false; }
  std::vector<std::int32_t> feature_layers() const override { return layers_; }
  void take_features(std::int32_t position, std::span<const float> row) override {
    in_order_ &= position == static_cast<std::int32_t>(rows_.size());
    rows_.emplace_back(row.begin(), row.end());
  }
  /// They must be those of all tokens of the text but the last, in order.
  std::string check(std::span<const std::int32_t> text) const {
    if (!in_order_) return "features out of order";
    if (rows_.size() + 1 != text.size()) return fmt::format("features of {} positions for a text of {}", rows_.size(), text.size());
    for (std::size_t p = 0; p < rows_.size(); ++p) {
      const auto token = simulation::token_hash(text[p], static_cast<std::int32_t>(p));
      std::vector<float> right;
      for (const std::int32_t layer : layers_)
        std::ranges::copy(simulation::features_of(token, simulation::prefix_hash(text.first(p + 1)), layer), std::back_inserter(right));
      if (rows_[p] != right) return fmt::format("wrong features at {}", p);
    }
    return "";
  }

 private:
  const std::vector<std::int32_t> layers_;
  bool in_order_ = true;
  std::vector<std::vector<float>> rows_;
};

}  // namespace yamata::test
