// Eight groups at once, for AVX2.
#include <cstddef>

namespace yamata::quantize {
namespace {
constexpr std::size_t kLanes = 8;
}
}  // namespace yamata::quantize
#include "src/quantize/group_fit_template.hpp"

namespace yamata::quantize {
const GroupFit group_fit_avx2{symmetric, refine, offset};
}
