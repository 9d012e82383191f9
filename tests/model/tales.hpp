#pragma once
// The demonstration's target and a text for it.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/paths.hpp"

namespace yamata {

inline const std::string kModel = test::source_path("/models/tales-target-q8_0.gguf");
inline const std::vector<std::int32_t> kTokens{1, 403, 17, 2500, 90, 1111, 7, 802, 33, 5};

}  // namespace yamata
