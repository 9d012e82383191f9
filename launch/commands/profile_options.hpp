#pragma once
// The flags of yamata profile.
#include <cxxopts.hpp>
#include <vector>

#include "launch/options.hpp"

namespace yamata {

struct ProfileOptions {
  std::string model;  ///< empty: the machine alone
  Numa numa = Numa::kAuto;
  bool repack = true;
  std::string json_file;
  int threads = 0;  ///< most; 0: all cores
  int rounds = 5;
  int memory_mib = 0;  ///< that bandwidth is measured on; 0: several times the caches
  std::vector<int> widths, contexts;
  bool contexts_given = false;  ///< else those that the model or the memory has no room for are left out
  CacheTypes cache_types;
  std::vector<UnitSpec> units;  ///< --units: their shares are measured, nothing else
};

cxxopts::Options profile_flags();
/// Throws UsageError naming the flag that makes no sense.
ProfileOptions read_profile(const cxxopts::ParseResult& result);

}  // namespace yamata
