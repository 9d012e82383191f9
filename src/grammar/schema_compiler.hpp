#pragma once
// Compiles a parsed JSON schema.
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/grammar/byte_automaton.hpp"
#include "src/grammar/schema_keywords.hpp"

namespace yamata {

/// Objects, arrays and strings are rules, which are shared; everything else is repeated where it may stand. Rules of objects and arrays are
/// compiled one after another, so recursion of the schema is no recursion here.
class SchemaCompiler {
 public:
  SchemaCompiler(const SchemaJson& root, ByteAutomaton& automaton);

  /// Reads a value of the root. Throws UsageError naming the keyword, and where it is.
  void compile(NodeIndex from, NodeIndex to);

 private:
  /// The schemas of which a value at one place may be; each is compiled there once.
  using Alternatives = std::set<const SchemaJson*>;
  /// A rule whose inside is not compiled yet.
  struct Pending {
    RuleIndex rule;
    const SchemaJson* schema;
    bool value;  // a constant instead of a schema
    bool object;
    std::string where;
  };

  void add_value(NodeIndex from, const SchemaJson& schema, NodeIndex to, const std::string& where);
  void add_alternative(NodeIndex from, const SchemaJson& schema, NodeIndex to, const std::string& where, Alternatives& done, int depth);
  void step();
  bool add_combination(NodeIndex from, const SchemaJson& schema, NodeIndex to, const std::string& where, Alternatives& done, int depth);
  void add_constants(NodeIndex from, const SchemaJson& schema, NodeIndex to, const std::string& where);
  void add_constant(NodeIndex from, const SchemaJson& value, NodeIndex to, const std::string& where);
  void add_types(NodeIndex from, const SchemaJson& schema, NodeIndex to, const std::string& where);
  RuleIndex container(const SchemaJson& schema, bool object, bool value, const std::string& where);
  RuleIndex string_rule(const SchemaJson& schema);
  RuleIndex literal_rule(const SchemaJson& text);

  struct Property {
    std::string name;
    const SchemaJson* schema;
    bool required;
    bool constant = false;  // the schema is a value instead
  };
  std::vector<Property> properties_of(const SchemaJson& schema) const;
  const SchemaJson* additional_of(const SchemaJson& schema) const;
  void add_object(const Pending& object);
  void add_members(const Pending& object, const std::vector<Property>& properties, const SchemaJson* additional);
  void add_property(NodeIndex from, const Property& property, NodeIndex to, const std::string& where);
  void add_array(const Pending& array);
  void add_constant_object(const Pending& object);
  void add_constant_array(const Pending& array);

  void require_disjoint(const SchemaJson& alternatives) const;
  void compile_pending();

  const SchemaJson& root_;
  ByteAutomaton& automaton_;
  std::map<std::pair<const SchemaJson*, int>, RuleIndex> containers_;  // by schema, and what it is there
  std::map<std::string, RuleIndex> strings_;
  std::deque<Pending> pending_;
  std::string where_ = "#";  // what is being compiled
  std::size_t steps_ = 0;
};

/// A schema that allows everything.
const SchemaJson& any_schema();

/// Reads what may stand between the parts of objects and arrays: nothing, a space, or a new line with at most 20 blanks.
void add_space(ByteAutomaton& automaton, NodeIndex from, NodeIndex to);

/// Whether no value that is written for one schema is valid for the other (as far as is easy to see). References are resolved in `root`.
bool disjoint(const SchemaJson& root, const SchemaJson& a, const SchemaJson& b, int depth = 0);

}  // namespace yamata
