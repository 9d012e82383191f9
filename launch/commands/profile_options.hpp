#pragma once
// The flags of yamata profile.
#include <vector>

#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

struct ProfileOptions {
  std::string model;  ///< empty: only the machine
  Numa numa = Numa::kAuto;
  bool repack = true;
  std::string json_file;
  int threads = 0;  ///< the most; 0: all cores
  int rounds = 5;
  int memory_mib = 0;  ///< size of the memory for measuring bandwidth; 0: several times the caches
  std::vector<int> widths, contexts;
  bool contexts_given = false;  ///< false: contexts that are too long for the model or the memory are skipped
  CacheTypes cache_types;
  std::vector<UnitSpec> units;  ///< --units: only their shares are measured
  AttentionCut attention_cut = AttentionCut::kHeads;
  std::string tree_from;  ///< --tree-from: acceptance rates; empty: no trees are measured
  std::string tree_out;   ///< --tree-out: the file for the fastest tree
  ModelFiles heads;       ///< --heads or --mtp, one file: the time of their guesses is part of a step
};

Flags profile_flags();
/// Throws UsageError naming the invalid flag.
ProfileOptions read_profile(const GivenFlags& result);

}  // namespace yamata
