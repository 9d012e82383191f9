#include "launch/commands/inspect_options.hpp"

#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"
#include "launch/program/options/unit_flags.hpp"

namespace yamata {

cxxopts::Options inspect_flags() {
  auto flags = describe("inspect", "Shows the contents of a model file, and what each rank of a split would hold.");
  flags.add_options("Output")("tensors", "List every tensor");
  flags.add_options("Cluster")("layer-split,mpi-layer-split",
                               "The split to show: the share of the layers per rank, such as 0.5,0.3,0.2; ranks joined by + share each "
                               "layer: 0.5+0.5; auto: by the bytes of the layers, over the ranks that mpirun starts, or one",
                               value_or<std::string>("auto"), "SPLIT");
  flags.add_options("Machine")("gpu-layers,n-gpu-layers",
                               "-ngl: show the memory that the first N layers of each rank take on a GPU (0 or auto: no GPU)",
                               value_or<std::string>("auto"), "N");
  flags.add_options("Context")("c,ctx-size", kContextSize, value_or<int>("0"), "N");
  return flags;
}

InspectOptions read_inspect(const cxxopts::ParseResult& r) {
  return {.model = read_model(r),
          .tensors = given(r, "tensors"),
          .layer_split = LayerSplit::parse(r["layer-split"].as<std::string>()),
          .gpu_layers = parse_gpu_layers(r["gpu-layers"].as<std::string>(), {}).value_or(0),
          .context = read_context_size(r)};
}

}  // namespace yamata
