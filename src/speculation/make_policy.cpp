#include "src/speculation/make_policy.hpp"

#include "node/error.hpp"
#include "src/speculation/shaped_policies.hpp"

namespace yamata {

std::unique_ptr<Policy> make_policy(const PolicyOptions& options) {
  if (options.name == "best-first") return std::make_unique<BestFirst>(options);
  if (options.name == "chain") return std::make_unique<Chain>(options);
  if (options.name == "static-tree") return std::make_unique<StaticTreePolicy>(options);
  if (options.name == "dynamic-tree") return std::make_unique<DynamicTreePolicy>(options);
  if (options.name == "multi-sequence") return std::make_unique<MultiSequence>(options);
  if (options.name == "watch") return std::make_unique<Watch>();
  throw UsageError("--policy must be best-first, chain, static-tree, dynamic-tree or multi-sequence");
}

}  // namespace yamata
