#pragma once
// A message of the engine's protocol.
#include <nlohmann/json.hpp>
#include <string>

namespace yamata {

/// One JSON object, on a line of its own (docs/serving.md).
using JsonLine = nlohmann::json;

/// As it is sent, without the end of the line. Bytes that are not UTF-8 are replaced.
inline std::string json_text(const JsonLine& message) { return message.dump(-1, ' ', false, JsonLine::error_handler_t::replace); }

}  // namespace yamata
