#pragma once
// Runs a stage's model on a unit and waits for the end.
#include <cstdint>
#include <span>
#include <vector>

#include "src/model/stage_model.hpp"
#include "tests/finish.hpp"

namespace yamata {

/// The logits of some rows of `tokens` with these placements; `features`: of the token before each, or empty.
inline std::span<const float> logits_of(StageModel& model, std::span<const std::int32_t> tokens, const std::vector<Placement>& placements,
                                        const std::vector<std::int32_t>& rows, std::span<const float> features) {
  model.start({.tokens = tokens,
               .activations = {},
               .placements = placements,
               .logit_rows = rows,
               .feature_rows = {},
               .features = features,
               .feature_layers = {}},
              nullptr);
  finish(model.unit());
  return model.logits();
}

}  // namespace yamata
