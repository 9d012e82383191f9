#include "src/grammar/schema_compiler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "node/error.hpp"
#include "src/grammar/formats.hpp"

namespace yamata {
namespace {

constexpr std::size_t kMostSteps = 200'000;
constexpr int kDeepestAlternative = 64;

/// Throws unless the keywords beside `keyword` are among `allowed`.
void require_alone(const SchemaJson& schema, const char* keyword, std::vector<const char*> allowed) {
  allowed.push_back(keyword);
  if (const std::string* other = other_keyword(schema, allowed); other)
    throw UsageError(fmt::format("'{}' beside '{}' is not supported", *other, keyword));
}

bool within(std::uint32_t types, std::uint32_t allowed) {
  if (allowed & kNumber) allowed |= kInteger;
  return (types & ~allowed) == 0;
}

/// 'type' beside 'anyOf' only says again what the alternatives say.
void require_types_within(const SchemaJson& schema, const char* keyword) {
  if (!schema.contains("type")) return;
  const std::uint32_t types = types_of(schema);
  for (const SchemaJson& alternative : schema.at(keyword)) {
    if (!alternative.is_object() || !alternative.contains("type") || !within(types_of(alternative), types))
      throw UsageError(fmt::format("'type' beside '{}' is only supported if each alternative has one of its types", keyword));
  }
}

}  // namespace

const SchemaJson& any_schema() {
  static const SchemaJson any = SchemaJson::object();
  return any;
}

void add_space(ByteAutomaton& automaton, NodeIndex from, NodeIndex to) {
  constexpr int kMostBlanks = 20;
  automaton.add_empty(from, to);
  automaton.add_byte(from, ' ', to);
  NodeIndex node = automaton.add_node();
  automaton.add_byte(from, '\n', node);
  automaton.add_empty(node, to);
  for (int i = 0; i < kMostBlanks; ++i) {
    const NodeIndex next = automaton.add_node();
    for (const char blank : {' ', '\t'}) automaton.add_byte(node, blank, next);
    automaton.add_empty(next, to);
    node = next;
  }
}

SchemaCompiler::SchemaCompiler(const SchemaJson& root, ByteAutomaton& automaton) : root_(root), automaton_(automaton) {}

void SchemaCompiler::compile(NodeIndex from, NodeIndex to) {
  try {
    if (!root_.is_object() && !root_.is_boolean()) throw UsageError("a schema is an object");
    add_value(from, root_, to, "#");
    while (!pending_.empty()) compile_pending();
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{} (at {} of the schema)", error.what(), where_.substr(0, 200)));
  }
}

void SchemaCompiler::compile_pending() {
  const Pending next = std::move(pending_.front());
  pending_.pop_front();
  where_ = next.where;
  if (next.value)
    next.object ? add_constant_object(next) : add_constant_array(next);
  else
    next.object ? add_object(next) : add_array(next);
}

void SchemaCompiler::step() {
  if (++steps_ > kMostSteps) throw UsageError("the schema is too large; lower maxLength or maxItems, or leave out alternatives");
}

void SchemaCompiler::add_value(NodeIndex from, const SchemaJson& schema, NodeIndex to, const std::string& where) {
  Alternatives done;
  add_alternative(from, schema, to, where, done, 0);
}

void SchemaCompiler::add_alternative(NodeIndex from, const SchemaJson& schema, NodeIndex to, const std::string& where, Alternatives& done,
                                     int depth) {
  step();
  where_ = where;
  if (depth > kDeepestAlternative) throw UsageError("alternatives and references are nested too deep");
  if (!done.insert(&schema).second) return;
  if (schema.is_boolean()) {
    if (schema.get<bool>()) add_alternative(from, any_schema(), to, where, done, depth + 1);
    return;
  }
  check_keywords(schema);
  if (add_combination(from, schema, to, where, done, depth)) return;
  has_any(schema, {"const", "enum"}) ? add_constants(from, schema, to, where) : add_types(from, schema, to, where);
}

/// A reference, or alternatives. False if the schema is neither.
bool SchemaCompiler::add_combination(NodeIndex from, const SchemaJson& schema, NodeIndex to, const std::string& where, Alternatives& done,
                                     int depth) {
  if (const auto reference = schema.find("$ref"); reference != schema.end()) {
    require_alone(schema, "$ref", {});
    const std::string name = reference->get<std::string>();
    add_alternative(from, resolve_reference(root_, *reference), to, name, done, depth + 1);
    return true;
  }
  for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
    const auto found = schema.find(keyword);
    if (found == schema.end()) continue;
    require_alone(schema, keyword, {"type"});
    require_types_within(schema, keyword);
    if (found->size() > 1 && std::string_view(keyword) == "allOf") throw UsageError("'allOf' of several schemas is not supported");
    if (std::string_view(keyword) == "oneOf") require_disjoint(*found);
    for (std::size_t i = 0; i < found->size(); ++i)
      add_alternative(from, (*found)[i], to, fmt::format("{}/{}/{}", where, keyword, i), done, depth + 1);
    return true;
  }
  return false;
}

void SchemaCompiler::require_disjoint(const SchemaJson& alternatives) const {
  constexpr std::size_t kMostAlternatives = 256;
  if (alternatives.size() > kMostAlternatives)
    throw UsageError(fmt::format("'oneOf' has more than {} alternatives; write 'anyOf'", kMostAlternatives));
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    for (std::size_t j = i + 1; j < alternatives.size(); ++j) {
      if (!disjoint(root_, alternatives[i], alternatives[j]))
        throw UsageError(
            fmt::format("'oneOf': a value may be of alternatives {} and {} at once, or it is not clear that it is not; "
                        "write 'anyOf'",
                        i, j));
    }
  }
}

void SchemaCompiler::add_constants(NodeIndex from, const SchemaJson& schema, NodeIndex to, const std::string& where) {
  require_alone(schema, schema.contains("const") ? "const" : "enum", {"const", "enum", "type"});
  const std::uint32_t types = schema.contains("type") ? types_of(schema) : std::uint32_t{kAllTypes};
  SchemaJson::const_iterator only = schema.find("const"), list = schema.find("enum");
  const auto add = [&](const SchemaJson& value) {
    step();
    if (within(type_of_value(value), types)) add_constant(from, value, to, where);
  };
  if (only != schema.end()) {
    if (list == schema.end() || std::ranges::find(*list, *only) != list->end()) add(*only);
    return;
  }
  for (const SchemaJson& value : *list) add(value);
}

void SchemaCompiler::add_constant(NodeIndex from, const SchemaJson& value, NodeIndex to, const std::string& where) {
  if (value.is_string())
    automaton_.add_call(from, literal_rule(value), to);
  else if (value.is_structured())
    automaton_.add_call(from, container(value, value.is_object(), true, where), to);
  else
    automaton_.add_text(from, value.dump(), to);
}

void SchemaCompiler::add_types(NodeIndex from, const SchemaJson& schema, NodeIndex to, const std::string& where) {
  const std::uint32_t types = types_of(schema);
  if (types & kNull) automaton_.add_text(from, "null", to);
  if (types & kBoolean) {
    automaton_.add_text(from, "true", to);
    automaton_.add_text(from, "false", to);
  }
  if (types & kNumber) add_number(automaton_, from, number_range(schema), to);
  if (types & kInteger) add_integer(automaton_, from, number_range(schema), to);
  if (types & kString) automaton_.add_call(from, string_rule(schema), to);
  if (types & kObject) automaton_.add_call(from, container(schema, true, false, where), to);
  if (types & kArray) automaton_.add_call(from, container(schema, false, false, where), to);
}

RuleIndex SchemaCompiler::container(const SchemaJson& schema, bool object, bool value, const std::string& where) {
  const SchemaJson* key = !value && allows_everything(schema) ? &any_schema() : &schema;
  const auto [found, added] = containers_.try_emplace({key, (object ? 1 : 0) + (value ? 2 : 0)}, 0);
  if (added) {
    found->second = automaton_.add_rule(object ? '{' : '[');
    pending_.push_back({found->second, key, value, object, where});
  }
  return found->second;
}

RuleIndex SchemaCompiler::string_rule(const SchemaJson& schema) {
  const StringLimits limits = string_limits(schema);
  const auto pattern = schema.find("pattern"), format = schema.find("format");
  const bool patterned = pattern != schema.end(), formatted = format != schema.end();
  if (patterned && formatted) throw UsageError("'format' beside 'pattern' is not supported");
  const std::string expression = patterned   ? pattern->get<std::string>()
                                 : formatted ? pattern_of_format(format->get<std::string>())
                                             : std::string();
  const std::string key = fmt::format("{} {} {} {}", limits.least, limits.most ? fmt::to_string(*limits.most) : "any",
                                      patterned || formatted ? "pattern" : "", expression);
  const auto [found, added] = strings_.try_emplace(key, 0);
  if (!added) return found->second;
  found->second = automaton_.add_rule('"');
  const ByteAutomaton::Rule rule = automaton_.rule(found->second);
  if (patterned || formatted)
    add_pattern_rest(automaton_, rule.start, compile_pattern(expression), limits, rule.end);
  else
    add_string_rest(automaton_, rule.start, limits, rule.end);
  return found->second;
}

/// A string that is given.
RuleIndex SchemaCompiler::literal_rule(const SchemaJson& text) {
  const std::string written = text.dump();
  const auto [found, added] = strings_.try_emplace(written, 0);
  if (added) {
    found->second = automaton_.add_rule('"');
    const ByteAutomaton::Rule rule = automaton_.rule(found->second);
    automaton_.add_text(rule.start, std::string_view(written).substr(1), rule.end);
  }
  return found->second;
}

}  // namespace yamata
