#pragma once
// Makes a policy by its name.
#include <memory>

#include "src/speculation/policy.hpp"

namespace yamata {

/// By the name in `options`. Throws UsageError where it is not known.
std::unique_ptr<Policy> make_policy(const PolicyOptions& options);

}  // namespace yamata
