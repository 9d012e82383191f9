#include "src/grammar/schema_keywords.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "node/error.hpp"

namespace yamata {
namespace {

constexpr std::size_t kMostBytes = 1 << 20, kMostMembers = 4096;
constexpr int kDeepestSchema = 128;

struct KnownType {
  const char* name;
  std::uint32_t type;
};
constexpr std::array<KnownType, 7> kTypes{{{"null", kNull},
                                           {"boolean", kBoolean},
                                           {"integer", kInteger},
                                           {"number", kNumber},
                                           {"string", kString},
                                           {"object", kObject},
                                           {"array", kArray}}};

constexpr std::array<std::string_view, 15> kAnnotations{"$schema",         "$id",         "$comment", "$defs",     "definitions",
                                                        "title",           "description", "default",  "examples",  "example",
                                                        "contentEncoding", "deprecated",  "readOnly", "writeOnly", "contentMediaType"};

bool is_annotation(const std::string& keyword) {
  return keyword.starts_with("x-") || std::ranges::find(kAnnotations, keyword) != kAnnotations.end();
}

/// What kind of value a keyword must have.
enum class Value { kAnything, kCount, kNumber, kText, kSchema, kSchemas, kMembers, kNames, kList, kTypes };
struct Keyword {
  const char* name;
  Value value;
  std::uint32_t types;  // that it is about; 0: not of one type
};
constexpr std::array<Keyword, 23> kKeywords{{{"type", Value::kTypes, 0},
                                             {"const", Value::kAnything, 0},
                                             {"enum", Value::kList, 0},
                                             {"$ref", Value::kText, 0},
                                             {"anyOf", Value::kSchemas, 0},
                                             {"oneOf", Value::kSchemas, 0},
                                             {"allOf", Value::kSchemas, 0},
                                             {"properties", Value::kMembers, kObject},
                                             {"required", Value::kNames, kObject},
                                             {"additionalProperties", Value::kSchema, kObject},
                                             {"items", Value::kSchema, kArray},
                                             {"prefixItems", Value::kSchemas, kArray},
                                             {"minItems", Value::kCount, kArray},
                                             {"maxItems", Value::kCount, kArray},
                                             {"minLength", Value::kCount, kString},
                                             {"maxLength", Value::kCount, kString},
                                             {"pattern", Value::kText, kString},
                                             {"format", Value::kText, kString},
                                             {"minimum", Value::kNumber, kNumber},
                                             {"maximum", Value::kNumber, kNumber},
                                             {"exclusiveMinimum", Value::kNumber, kNumber},
                                             {"exclusiveMaximum", Value::kNumber, kNumber},
                                             {"multipleOf", Value::kNumber, kNumber}}};

const Keyword* find_keyword(const std::string& name) {
  const auto found = std::ranges::find_if(kKeywords, [&](const Keyword& keyword) { return name == keyword.name; });
  return found == kKeywords.end() ? nullptr : &*found;
}

std::uint32_t find_type(const std::string& name) {
  const auto found = std::ranges::find_if(kTypes, [&](const KnownType& known) { return name == known.name; });
  if (found == kTypes.end()) throw UsageError(fmt::format("'type': '{}' is no type", name));
  return found->type;
}

bool is_schema(const SchemaJson& value) { return value.is_object() || value.is_boolean(); }

bool all_texts(const SchemaJson& value) {
  return value.is_array() && std::ranges::all_of(value, [](const SchemaJson& name) { return name.is_string(); });
}

/// What a keyword's value must be; empty if it is that.
const char* fault_of(Value kind, const SchemaJson& value) {
  switch (kind) {
    case Value::kCount:
      return value.is_number_unsigned() ? "" : "a whole number from 0 on";
    case Value::kNumber:
      return value.is_number() ? "" : "a number";
    case Value::kText:
      return value.is_string() ? "" : "a string";
    case Value::kSchema:
      return is_schema(value) ? "" : "a schema";
    case Value::kSchemas:
      return value.is_array() && !value.empty() && std::ranges::all_of(value, is_schema) ? "" : "a list of schemas";
    case Value::kMembers:
      return value.is_object() && std::ranges::all_of(value, is_schema) ? "" : "an object of schemas";
    case Value::kNames:
      return all_texts(value) ? "" : "a list of strings";
    case Value::kList:
      return value.is_array() && !value.empty() ? "" : "a list with values";
    case Value::kTypes:
      return value.is_string() || (all_texts(value) && !value.empty()) ? "" : "a type or a list of types";
    default:
      return "";
  }
}

}  // namespace

SchemaJson parse_schema(const std::string& text) {
  if (text.size() > kMostBytes) throw UsageError("the schema is longer than 1 MiB; leave parts out");
  return parse_ordered(text);
}

SchemaJson parse_ordered(const std::string& text) {
  std::array<std::size_t, kDeepestSchema + 2> members{};
  const auto watch = [&](int depth, SchemaJson::parse_event_t event, SchemaJson&) {
    if (depth > kDeepestSchema) throw UsageError(fmt::format("the schema is nested more than {} deep; use $ref", kDeepestSchema));
    const auto level = static_cast<std::size_t>(depth);
    if (event == SchemaJson::parse_event_t::object_start) members[level + 1] = 0;
    if (event == SchemaJson::parse_event_t::key && ++members[level] > kMostMembers)
      throw UsageError(fmt::format("the schema has an object with more than {} members; leave some out", kMostMembers));
    return true;
  };
  try {
    return SchemaJson::parse(text, watch);
  } catch (const SchemaJson::exception& e) {
    throw UsageError(fmt::format("the schema is no valid JSON: {}", e.what()));
  }
}

void check_keywords(const SchemaJson& schema) {
  for (const auto& [name, value] : schema.items()) {
    if (is_annotation(name)) continue;
    const Keyword* keyword = find_keyword(name);
    if (keyword == nullptr || name == "multipleOf") throw UsageError(fmt::format("'{}' is not supported", name));
    if (const std::string fault = fault_of(keyword->value, value); !fault.empty())
      throw UsageError(fmt::format("'{}' must be {}", name, fault));
  }
}

bool allows_everything(const SchemaJson& schema) {
  if (schema.is_boolean()) return schema.get<bool>();
  return other_keyword(schema, {}) == nullptr;
}

std::uint32_t types_of(const SchemaJson& schema) {
  std::uint32_t types = 0;
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (type->is_string()) return find_type(type->get<std::string>());
    for (const SchemaJson& name : *type) types |= find_type(name.get<std::string>());
  } else {
    for (const auto& [name, value] : schema.items()) {
      const Keyword* keyword = find_keyword(name);
      types |= keyword ? keyword->types : 0;
    }
  }
  if (types & kNumber) types &= ~std::uint32_t{kInteger};
  return types == 0 ? std::uint32_t{kAllTypes} : types;
}

std::uint32_t type_of_value(const SchemaJson& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_number_integer()) return kInteger;
  if (value.is_number()) return kNumber;
  if (value.is_string()) return kString;
  return value.is_object() ? kObject : kArray;
}

bool has_any(const SchemaJson& schema, const std::vector<const char*>& keywords) {
  return std::ranges::any_of(keywords, [&](const char* keyword) { return schema.contains(keyword); });
}

const std::string* other_keyword(const SchemaJson& schema, const std::vector<const char*>& keywords) {
  for (const auto& member : schema.get_ref<const SchemaJson::object_t&>()) {
    const bool named = std::ranges::any_of(keywords, [&](const char* keyword) { return member.first == keyword; });
    if (!named && !is_annotation(member.first)) return &member.first;
  }
  return nullptr;
}

std::optional<std::uint64_t> count_of(const SchemaJson& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  if (found == schema.end()) return std::nullopt;
  return found->get<std::uint64_t>();
}

StringLimits string_limits(const SchemaJson& schema) {
  return {.least = count_of(schema, "minLength").value_or(0), .most = count_of(schema, "maxLength")};
}

namespace {

/// The tighter of two bounds of the same side; the exclusive one if they are equal.
std::optional<Bound> bound_of(const SchemaJson& schema, const char* keyword, const char* exclusive, bool upper) {
  std::optional<Bound> found;
  double value = 0;
  for (const char* name : {exclusive, keyword}) {
    const auto given = schema.find(name);
    if (given == schema.end()) continue;
    const double number = given->get<double>();
    if (found && (upper ? number >= value : number <= value)) continue;
    const auto decimal = read_decimal(given->dump());
    if (!decimal) throw UsageError(fmt::format("'{}' has too many digits", name));
    found = Bound{*decimal, name == exclusive};
    value = number;
  }
  return found;
}

}  // namespace

NumberRange number_range(const SchemaJson& schema) {
  return {.least = bound_of(schema, "minimum", "exclusiveMinimum", false), .most = bound_of(schema, "maximum", "exclusiveMaximum", true)};
}

const SchemaJson& resolve_reference(const SchemaJson& root, const SchemaJson& reference) {
  const auto& text = reference.get_ref<const std::string&>();
  const auto refuse = [&](const char* why) { throw UsageError(fmt::format("'$ref': '{}' {}", text, why)); };
  if (!text.starts_with('#') || (text.size() > 1 && text[1] != '/')) refuse("is not within the schema, as '#/$defs/NAME' is");
  std::string pointer;
  for (std::size_t i = 1; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size() && sscanf(text.c_str() + i + 1, "%2x", &byte) == 1) {
      pointer += static_cast<char>(byte);
      i += 2;
    } else {
      pointer += text[i];
    }
  }
  try {
    const SchemaJson& found = root.at(SchemaJson::json_pointer(pointer));
    if (is_schema(found)) return found;
  } catch (const SchemaJson::exception&) {
  }
  refuse("names nothing in the schema");
  return root;
}

}  // namespace yamata
