#pragma once
// Reads the arguments of a command as its flags say, and prints its --help, with cxxopts. No other file includes cxxopts, which takes long
// to compile.
#include <span>
#include <string>

#include "launch/program/options/flags.hpp"
#include "launch/program/options/given_flags.hpp"

namespace yamata {

/// The flags and words among the arguments after the command's name; nothing after --help is missed. Throws UsageError with the likely
/// cause for unknown flags, other notations than "--flag VALUE", "--flag=VALUE" and "-f VALUE", values that are missing or no numbers, and
/// words, unless the command takes some.
GivenFlags parse_flags(const Flags& flags, std::span<const char* const> arguments);

/// The text of --help, in lines of at most 110 columns.
std::string help_of(const Flags& flags);

/// Throws UsageError if a flag that takes a file or folder is given an empty name.
void require_file_names(const Flags& flags, const GivenFlags& given);

}  // namespace yamata
