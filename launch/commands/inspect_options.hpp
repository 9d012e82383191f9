#pragma once
// The options of yamata inspect.
#include <string>

#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

struct InspectOptions {
  std::string model;
  bool tensors = false;  ///< list each tensor
  LayerSplit layer_split;
  int gpu_layers = 0;  ///< layers per rank on a GPU
  int context = 0;
};

Flags inspect_flags();
/// Throws UsageError naming the invalid flag.
InspectOptions read_inspect(const GivenFlags& result);

}  // namespace yamata
