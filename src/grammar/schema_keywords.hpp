#pragma once
// The keywords of a JSON schema.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/grammar/numbers.hpp"
#include "src/grammar/string_rules.hpp"

namespace yamata {

using SchemaJson = nlohmann::ordered_json;

/// A set of JSON types.
enum Types : std::uint32_t {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kNumber = 8,
  kString = 16,
  kObject = 32,
  kArray = 64,
  kAllTypes = 127 - kInteger,  // integers are numbers
};

/// Parses JSON in its order. Throws UsageError if it is no JSON, too deep, or an object has too many members.
SchemaJson parse_ordered(const std::string& text);
/// The same for a schema; throws UsageError also if it is too long.
SchemaJson parse_schema(const std::string& text);

/// Throws UsageError for a keyword that is not supported, and for a value of one that is not possible.
void check_keywords(const SchemaJson& schema);

/// Whether a schema allows any value: true, or an object with nothing but annotations.
bool allows_everything(const SchemaJson& schema);
/// The types that the schema names, or those that its keywords are about; all if there are none.
std::uint32_t types_of(const SchemaJson& schema);
/// The type of a value.
std::uint32_t type_of_value(const SchemaJson& value);
/// Whether the schema has one of these keywords.
bool has_any(const SchemaJson& schema, const std::vector<const char*>& keywords);
/// The first keyword that says something about values and is none of these; nullptr: there is none.
const std::string* other_keyword(const SchemaJson& schema, const std::vector<const char*>& keywords);

/// A whole number of a keyword; nothing if it is absent.
std::optional<std::uint64_t> count_of(const SchemaJson& schema, const char* keyword);
StringLimits string_limits(const SchemaJson& schema);
NumberRange number_range(const SchemaJson& schema);

/// The schema at "#/...", or UsageError.
const SchemaJson& resolve_reference(const SchemaJson& root, const SchemaJson& reference);

}  // namespace yamata
