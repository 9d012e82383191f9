#pragma once
// A message of the engine's protocol.
#include <nlohmann/json.hpp>

namespace yamata {

/// One JSON object, on a line of its own (docs/serving.md).
using JsonLine = nlohmann::json;

}  // namespace yamata
