#pragma once
// The values of "format" that can be written.
#include <string>
#include <string_view>

namespace yamata {

/// A pattern whose strings all have the format (but for a long one not all that have it). Throws UsageError naming those that are known.
std::string pattern_of_format(std::string_view format);

}  // namespace yamata
