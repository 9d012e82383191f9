// Four groups at once, for NEON. The code itself works with any vectors of four floats.
#include <cstddef>

namespace yamata::quantize {
namespace {
constexpr std::size_t kLanes = 4;
}
}  // namespace yamata::quantize
#include "src/quantize/group_fit_template.hpp"

namespace yamata::quantize {
const GroupFit group_fit_neon{symmetric, refine, offset};
}
