#include "src/grammar/json_schema.hpp"

#include <vector>

#include "node/error.hpp"
#include "src/grammar/schema_compiler.hpp"

namespace yamata {
namespace {

/// How many bytes of the trigger a text ends with after `byte`, if it ended with `matched` before it (Knuth, Morris and Pratt).
std::size_t matched_after(const std::string& trigger, std::size_t matched, char byte) {
  for (std::size_t length = matched + 1; length > 0; --length) {
    if (trigger[length - 1] != byte) continue;
    if (trigger.compare(0, length - 1, trigger, matched - (length - 1), length - 1) == 0) return length;
  }
  return 0;
}

/// Reads free text up to the end of the trigger.
void add_free_text(ByteAutomaton& automaton, NodeIndex from, const SchemaOptions& options, NodeIndex to) {
  constexpr std::size_t kLongestTrigger = 256;
  const std::string& trigger = options.trigger;
  if (trigger.size() > kLongestTrigger) throw UsageError("the trigger of a schema is longer than 256 bytes");
  std::vector<NodeIndex> nodes{from};
  while (nodes.size() < trigger.size()) nodes.push_back(automaton.add_node());
  nodes.push_back(to);
  for (std::size_t matched = 0; matched < trigger.size(); ++matched) {
    automaton.mark_free(nodes[matched]);
    if (!options.trigger_required) automaton.accept(nodes[matched]);
    for (int byte = 0; byte < 256; ++byte) {
      const NodeIndex next = nodes[matched_after(trigger, matched, static_cast<char>(byte))];
      automaton.add_bytes(nodes[matched], static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(byte), next);
    }
  }
}

}  // namespace

ByteAutomaton compile_json_schema(const std::string& schema, const SchemaOptions& options) {
  const SchemaJson parsed = parse_schema(schema);
  ByteAutomaton automaton;
  const NodeIndex end = automaton.add_node();
  NodeIndex begin = automaton.start();
  if (!options.trigger.empty()) {
    const NodeIndex triggered = automaton.add_node();
    begin = automaton.add_node();
    add_free_text(automaton, automaton.start(), options, triggered);
    add_space(automaton, triggered, begin);  // often an empty line follows
  }
  const NodeIndex value = automaton.add_node();
  add_space(automaton, begin, value);
  SchemaCompiler(parsed, automaton).compile(value, end);
  automaton.accept(end);
  if (!automaton.trim(begin)) throw UsageError("no JSON value is valid for the schema");
  return automaton;
}

std::string member_in_order(const std::string& object, const char* name) {
  const SchemaJson parsed = parse_ordered(object);
  if (!parsed.is_object() || !parsed.contains(name)) throw UsageError(std::string("there is no '") + name + "'");
  return parsed.at(name).dump();
}

}  // namespace yamata
