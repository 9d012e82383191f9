#pragma once
// JSON schemas: which texts they allow.
#include <string>

#include "src/grammar/byte_automaton.hpp"

namespace yamata {

struct SchemaOptions {
  std::string trigger{};         ///< free text up to and including this comes first, such as "</think>"; empty: none
  bool trigger_required = true;  ///< else the text may also end before it
};

/// The automaton of the JSON values that the schema allows. docs/serving.md says which keywords it knows; others are refused by name, and
/// nothing that it does not understand is ignored. What it writes is valid for the schema, but not everything that is valid is written:
/// properties come in the given order, white space is bounded. Throws UsageError, in a line, for a schema that cannot be used.
ByteAutomaton compile_json_schema(const std::string& schema, const SchemaOptions& options = {});

/// The member of a JSON object, as text whose parts are in the order of the object's. Throws UsageError if it is no object with the member,
/// or too deep.
std::string member_in_order(const std::string& object, const char* name);

}  // namespace yamata
