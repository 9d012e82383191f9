#include "mpi/planning/cache_size.hpp"

#include <algorithm>

#include "src/model/hyperparameters.hpp"

namespace yamata {

std::vector<std::int32_t> cache_sizes(int slots, std::int32_t context) {
  std::vector<std::int32_t> sizes;
  for (std::int32_t cells = slots * std::min(context, kDefaultContext); cells > context; cells /= 2) sizes.push_back(cells);
  sizes.push_back(context);
  return sizes;
}

}  // namespace yamata
