#pragma once
// Numbers in JSON files.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "node/error.hpp"

namespace yamata {

/// The number of a key. Throws ModelError if it is not in `least`..`most`, and nlohmann's exception if it is missing or no number.
/// `where`: what to write before the name in the error, such as "widths[4].".
template <class Json>
double number(const Json& j, const char* name, double least, double most = 1e15, const std::string& where = "") {
  const double value = j.at(name).template get<double>();
  if (!(value >= least && value <= most)) throw ModelError(fmt::format("'{}{}' is {}, which is impossible", where, name, value));
  return value;
}

/// The same for a whole number.
template <class Json>
std::int64_t whole_number(const Json& j, const char* name, double least, double most = 1e15, const std::string& where = "") {
  const double value = number(j, name, least, most, where);
  if (value != std::floor(value)) throw ModelError(fmt::format("'{}{}' is {}, which is no whole number", where, name, value));
  return static_cast<std::int64_t>(value);
}

}  // namespace yamata
