// Objects and arrays of a schema.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "node/error.hpp"
#include "src/grammar/schema_compiler.hpp"

namespace yamata {
namespace {

constexpr std::size_t kLongestName = 1000;  // bytes

void require_short(const std::string& name) {
  if (name.size() > kLongestName) throw UsageError(fmt::format("a property's name is longer than {} bytes", kLongestName));
}

/// Reads ':' and perhaps a space.
void add_colon(ByteAutomaton& automaton, NodeIndex from, NodeIndex to) {
  const NodeIndex after = automaton.add_node();
  automaton.add_byte(from, ':', after);
  automaton.add_byte(after, ' ', to);
  automaton.add_empty(after, to);
}

}  // namespace

std::vector<SchemaCompiler::Property> SchemaCompiler::properties_of(const SchemaJson& schema) const {
  std::vector<Property> properties;
  std::map<std::string, bool> required;  // and whether it is among the properties
  if (const auto names = schema.find("required"); names != schema.end()) {
    for (const SchemaJson& name : *names) required.emplace(name.get<std::string>(), false);
  }
  if (const auto members = schema.find("properties"); members != schema.end()) {
    for (const auto& [name, member] : members->items()) {
      require_short(name);
      const auto found = required.find(name);
      if (found != required.end()) found->second = true;
      properties.push_back({name, &member, found != required.end()});
    }
  }
  const auto additional = schema.find("additionalProperties");
  for (const auto& [name, listed] : required) {
    if (listed) continue;
    require_short(name);
    if (additional != schema.end() && additional->is_boolean() && !additional->get<bool>())
      throw UsageError(fmt::format("'required' names '{}', which is not in 'properties', and 'additionalProperties' is false", name));
    properties.push_back({name, additional == schema.end() ? &any_schema() : &*additional, true});
  }
  return properties;
}

/// The schema of further properties; nullptr: there are none.
const SchemaJson* SchemaCompiler::additional_of(const SchemaJson& schema) const {
  const auto additional = schema.find("additionalProperties");
  if (additional == schema.end()) return has_any(schema, {"properties", "required"}) ? nullptr : &any_schema();
  return additional->is_boolean() && !additional->get<bool>() ? nullptr : &*additional;
}

void SchemaCompiler::add_object(const Pending& object) {
  add_members(object, properties_of(*object.schema), additional_of(*object.schema));
}

/// Properties in their order. At each there is a node where none has been written, one after an earlier one, and one after a comma.
void SchemaCompiler::add_members(const Pending& object, const std::vector<Property>& properties, const SchemaJson* additional) {
  const ByteAutomaton::Rule rule = automaton_.rule(object.rule);
  NodeIndex first = automaton_.add_node(), after = automaton_.add_node(), comma = automaton_.add_node();
  const NodeIndex none = first, close = automaton_.add_node(), last_space = automaton_.add_node();
  add_space(automaton_, rule.start, none);
  add_space(automaton_, last_space, close);
  automaton_.add_byte(close, '}', rule.end);
  std::size_t last_required = 0;  // properties up to this one must come before the end
  for (std::size_t i = 0; i < properties.size(); ++i) last_required = properties[i].required ? i + 1 : last_required;
  for (std::size_t i = 0; i < properties.size(); ++i) {
    const NodeIndex key = automaton_.add_node(), value_end = automaton_.add_node();
    const NodeIndex next_first = automaton_.add_node(), next_comma = automaton_.add_node();
    automaton_.add_empty(first, key);
    automaton_.add_empty(comma, key);
    if (!properties[i].required) {
      automaton_.add_empty(first, next_first);
      automaton_.add_empty(comma, next_comma);
    }
    step();
    add_property(key, properties[i], value_end, object.where);
    first = next_first;
    comma = next_comma;
    after = value_end;
    if (i + 1 >= last_required) automaton_.add_empty(after, last_space);
    if (i + 1 < properties.size() || additional) {
      const NodeIndex space = automaton_.add_node();
      automaton_.add_byte(after, ',', space);
      add_space(automaton_, space, comma);
    }
  }
  automaton_.add_empty(first, close);
  if (!additional) return;
  std::vector<std::string> names;
  for (const Property& property : properties) names.push_back(property.name);
  const NodeIndex key = automaton_.add_node(), colon = automaton_.add_node(), value = automaton_.add_node(), end = automaton_.add_node();
  automaton_.add_empty(first, key);
  automaton_.add_empty(comma, key);
  add_other_key(automaton_, key, names, colon);
  add_colon(automaton_, colon, value);
  add_value(value, *additional, end, object.where + "/additionalProperties");
  automaton_.add_empty(end, last_space);
  const NodeIndex space = automaton_.add_node();
  automaton_.add_byte(end, ',', space);
  add_space(automaton_, space, comma);
}

void SchemaCompiler::add_property(NodeIndex from, const Property& property, NodeIndex to, const std::string& where) {
  const NodeIndex colon = automaton_.add_node(), value = automaton_.add_node();
  automaton_.add_text(from, SchemaJson(property.name).dump(), colon);
  add_colon(automaton_, colon, value);
  const std::string inside = fmt::format("{}/properties/{}", where, property.name);
  property.constant ? add_constant(value, *property.schema, to, inside) : add_value(value, *property.schema, to, inside);
}

void SchemaCompiler::add_array(const Pending& array) {
  const SchemaJson& schema = *array.schema;
  const auto prefix = schema.find("prefixItems"), items = schema.find("items");
  const std::uint64_t given = prefix == schema.end() ? 0 : prefix->size();
  const std::uint64_t least = count_of(schema, "minItems").value_or(given);
  std::optional<std::uint64_t> most = count_of(schema, "maxItems");
  if (!most && given > 0 && items == schema.end()) most = std::max(given, least);
  if (std::max(least, most.value_or(0)) >= ByteAutomaton::kMostNodes)
    throw UsageError("the schema is too large: 'minItems' or 'maxItems' is; lower it");
  const SchemaJson& rest = items == schema.end() ? any_schema() : *items;
  const ByteAutomaton::Rule rule = automaton_.rule(array.rule);
  const NodeIndex none = automaton_.add_node(), close = automaton_.add_node(), last_space = automaton_.add_node();
  add_space(automaton_, rule.start, none);
  add_space(automaton_, last_space, close);
  automaton_.add_byte(close, ']', rule.end);
  if (least == 0) automaton_.add_empty(none, close);
  NodeIndex item = automaton_.add_node();
  automaton_.add_empty(none, item);
  for (std::uint64_t i = 0; !most || i < *most; ++i) {
    const NodeIndex after = automaton_.add_node();
    const bool of_prefix = i < given;
    add_value(item, of_prefix ? (*prefix)[i] : rest, after, array.where + (of_prefix ? fmt::format("/prefixItems/{}", i) : "/items"));
    const std::uint64_t count = i + 1;
    if (count >= least) automaton_.add_empty(after, last_space);
    if (most && count >= *most) return;
    const NodeIndex space = automaton_.add_node();
    automaton_.add_byte(after, ',', space);
    const bool loops = !most && count >= least && count > given;  // the next item is like this one
    if (!loops) item = automaton_.add_node();
    add_space(automaton_, space, item);
    if (loops) return;
  }
}

void SchemaCompiler::add_constant_object(const Pending& object) {
  std::vector<Property> properties;
  for (const auto& [name, value] : object.schema->items()) {
    require_short(name);
    properties.push_back({name, &value, true, true});
  }
  add_members(object, properties, nullptr);
}

void SchemaCompiler::add_constant_array(const Pending& array) {
  const ByteAutomaton::Rule rule = automaton_.rule(array.rule);
  NodeIndex node = automaton_.add_node();
  add_space(automaton_, rule.start, node);
  for (std::size_t i = 0; i < array.schema->size(); ++i) {
    step();
    if (i > 0) {
      const NodeIndex space = automaton_.add_node(), item = automaton_.add_node();
      automaton_.add_byte(node, ',', space);
      add_space(automaton_, space, item);
      node = item;
    }
    const NodeIndex after = automaton_.add_node();
    add_constant(node, (*array.schema)[i], after, array.where);
    node = after;
  }
  const NodeIndex close = automaton_.add_node();
  add_space(automaton_, node, close);
  automaton_.add_byte(close, ']', rule.end);
}

}  // namespace yamata
