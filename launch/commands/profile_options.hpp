#pragma once
// The flags of yamata profile.
#include <cxxopts.hpp>
#include <vector>

#include "cache/kv_store.hpp"

namespace yamata {

struct ProfileOptions {
  int threads = 0;  ///< most; 0: all cores
  int rounds = 5;
  int memory_mib = 0;  ///< that bandwidth is measured on; 0: several times the caches
  std::vector<int> widths, contexts;
  bool contexts_given = false;  ///< else those that the model or the memory has no room for are left out
  CacheTypes cache_types;
};

void declare_profile(cxxopts::Options& flags);
/// Throws UsageError naming the flag that makes no sense.
ProfileOptions read_profile(const cxxopts::ParseResult& result);

}  // namespace yamata
