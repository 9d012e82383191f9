#pragma once
// The options of yamata fetch.
#include <string>

#include "launch/program/options/given_flags.hpp"

namespace yamata {

struct FetchedOptions {
  std::string folder{};  ///< --weights-cache; empty: below Yamata's cache folder
  bool verify = false;
  std::string remove{};  ///< --remove: a fingerprint, or "all"; empty: none
};

Flags fetch_flags();
FetchedOptions read_fetched(const GivenFlags& result);

}  // namespace yamata
