#pragma once
// Flags for machines that lack a model's file.
#include "launch/program/options/flags.hpp"
#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

void add_fetch(Flags& flags);
/// Throws UsageError for a word that is none of the modes.
FetchOptions read_fetch(const GivenFlags& result);

}  // namespace yamata
