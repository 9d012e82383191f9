#pragma once
// The options of yamata inspect.
#include <cstdint>
#include <string>

#include "launch/commands/machine_units.hpp"
#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

struct InspectOptions {
  std::string model{};
  bool tensors = false;  ///< list each tensor
  LayerSplit layer_split{};
  MachineUnits machine{};
  int context = 0;
  std::string tree_file{}, json_file{};  ///< --tree: shows this tree instead of a model
  int draft = 0;                         ///< --draft: guesses of the tree; 0: not given
  std::uint64_t run = 0;                 ///< of a trace; 0: the first of those with the most guesses
};

Flags inspect_flags();
/// Throws UsageError naming the invalid flag.
InspectOptions read_inspect(const GivenFlags& result);

}  // namespace yamata
