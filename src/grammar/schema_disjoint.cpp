// Whether a value can be of two schemas at once.
#include <algorithm>
#include <optional>

#include "node/error.hpp"
#include "src/grammar/schema_compiler.hpp"

namespace yamata {
namespace {

constexpr int kDeepestComparison = 6;
constexpr std::size_t kMostCompared = 512;  // values, or members

/// The schema to which references lead; nullptr: they go in a circle.
const SchemaJson* follow(const SchemaJson& root, const SchemaJson& schema) {
  const SchemaJson* at = &schema;
  for (int i = 0; i < 16; ++i) {
    if (at->is_boolean()) return at;
    check_keywords(*at);
    const auto reference = at->find("$ref");
    if (reference != at->end())
      at = &resolve_reference(root, *reference);
    else if (const auto all = at->find("allOf"); all != at->end() && all->size() == 1)
      at = &all->front();
    else
      return at;
  }
  return nullptr;
}

std::uint32_t with_integers(std::uint32_t types) { return types & kNumber ? types | kInteger : types; }

/// The only values of a schema; nothing: any.
std::optional<SchemaJson> values_of(const SchemaJson& schema) {
  if (const auto only = schema.find("const"); only != schema.end()) return SchemaJson::array({*only});
  if (const auto list = schema.find("enum"); list != schema.end()) return *list;
  return std::nullopt;
}

bool share_a_value(const SchemaJson& a, const SchemaJson& b) {
  if (a.size() * b.size() > kMostCompared * kMostCompared) return true;
  return std::ranges::any_of(a, [&](const SchemaJson& value) { return std::ranges::find(b, value) != b.end(); });
}

std::uint32_t all_types(const SchemaJson& schema, const std::optional<SchemaJson>& values) {
  if (!values) return with_integers(types_of(schema));
  std::uint32_t types = 0;
  for (const SchemaJson& value : *values) types |= type_of_value(value);
  return types;
}

bool requires_property(const SchemaJson& schema, const std::string& name) {
  const auto required = schema.find("required");
  return required != schema.end() && std::ranges::find(*required, SchemaJson(name)) != required->end();
}

bool has_property(const SchemaJson& schema, const std::string& name) {
  const auto properties = schema.find("properties");
  return properties != schema.end() && properties->contains(name);
}

/// Whether a value that is written for the schema never has this property.
bool never_writes(const SchemaJson& schema, const std::string& name) {
  if (has_property(schema, name) || requires_property(schema, name)) return false;
  const auto additional = schema.find("additionalProperties");
  if (additional == schema.end()) return has_any(schema, {"properties", "required"});
  return additional->is_boolean() && !additional->get<bool>();
}

/// Whether `a` requires a property that values written for `b` never have; `valid`: that values of `b` never have.
bool requires_what_is_never_in(const SchemaJson& a, const SchemaJson& b, bool valid) {
  const auto required = a.find("required");
  if (required == a.end() || (valid && !b.contains("additionalProperties"))) return false;
  return std::ranges::any_of(*required, [&](const SchemaJson& name) { return never_writes(b, name.get<std::string>()); });
}

bool disjoint_objects(const SchemaJson& root, const SchemaJson& a, const SchemaJson& b, int depth) {
  if (requires_what_is_never_in(a, b, true) || requires_what_is_never_in(b, a, true)) return true;
  if (requires_what_is_never_in(a, b, false) && requires_what_is_never_in(b, a, false)) return true;
  const auto properties = a.find("properties");
  if (properties == a.end() || properties->size() > kMostCompared) return false;
  return std::ranges::any_of(properties->items(), [&](const auto& member) {
    const std::string& name = member.key();
    return requires_property(a, name) && requires_property(b, name) && has_property(b, name) &&
           disjoint(root, member.value(), b.at("properties").at(name), depth + 1);
  });
}

/// Whether every alternative of `a` is disjoint from `b`; nothing: `a` has no alternatives.
std::optional<bool> alternatives_disjoint(const SchemaJson& root, const SchemaJson& a, const SchemaJson& b, int depth) {
  for (const char* keyword : {"anyOf", "oneOf"}) {
    const auto found = a.find(keyword);
    if (found == a.end()) continue;
    return std::ranges::all_of(*found, [&](const SchemaJson& alternative) { return disjoint(root, alternative, b, depth + 1); });
  }
  return std::nullopt;
}

}  // namespace

bool disjoint(const SchemaJson& root, const SchemaJson& first, const SchemaJson& second, int depth) {
  if (depth > kDeepestComparison) return false;
  const SchemaJson *a = follow(root, first), *b = follow(root, second);
  if (!a || !b || a->is_boolean() || b->is_boolean()) return false;
  if (const auto split = alternatives_disjoint(root, *a, *b, depth)) return *split;
  if (const auto split = alternatives_disjoint(root, *b, *a, depth)) return *split;
  const auto values = values_of(*a), others = values_of(*b);
  if (values && others) return !share_a_value(*values, *others);
  const std::uint32_t common = all_types(*a, values) & all_types(*b, others);
  if (common == 0) return true;
  return common == kObject && !values && !others && disjoint_objects(root, *a, *b, depth);
}

}  // namespace yamata
