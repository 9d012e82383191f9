#pragma once
// What yamata inspect can be asked for.
#include <cxxopts.hpp>
#include <string>

#include "launch/options.hpp"

namespace yamata {

struct InspectOptions {
  std::string model;
  bool tensors = false;  ///< each is listed
  LayerSplit layer_split;
  int gpu_layers = 0;  ///< of each rank, on a card
  int context = 0;
};

cxxopts::Options inspect_flags();
/// Throws UsageError naming the flag that makes no sense.
InspectOptions read_inspect(const cxxopts::ParseResult& result);

}  // namespace yamata
