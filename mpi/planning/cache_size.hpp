#pragma once
// How many tokens of texts the cache holds.
#include <cstdint>
#include <vector>

namespace yamata {

/// Cells for `slots` texts at a time, more than one, the most wanted number first: a context for each, but none of more than usual size
/// (kDefaultContext), then less for all together, down to one context.
std::vector<std::int32_t> cache_sizes(int slots, std::int32_t context);

}  // namespace yamata
