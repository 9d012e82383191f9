#include "launch/commands/inspect_options.hpp"

#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"
#include "launch/program/options/unit_flags.hpp"

namespace yamata {

Flags inspect_flags() {
  auto flags = describe("inspect", "Shows the contents of a model file, and what each rank of a split would hold.");
  flags.group("Output")("--tensors", "List every tensor");
  flags.group("Cluster")("--layer-split, --mpi-layer-split",
                         "The split to show: the share of the layers per rank, such as 0.5,0.3,0.2; ranks joined by + share each "
                         "layer: 0.5+0.5; auto: by the bytes of the layers, over the ranks that mpirun starts, or one",
                         FlagKind::kWord, "SPLIT", "auto");
  flags.group("Machine")("-ngl, --gpu-layers, --n-gpu-layers",
                         "-ngl: show the memory that the first N layers of each rank take on a GPU (0 or auto: no GPU)", FlagKind::kWord,
                         "N", "auto");
  flags.group("Context")("-c, --ctx-size", kContextSize, FlagKind::kInt, "N", "0");
  return flags;
}

InspectOptions read_inspect(const GivenFlags& r) {
  return {.model = read_model(r),
          .tensors = r.given("tensors"),
          .layer_split = LayerSplit::parse(r.text("layer-split")),
          .gpu_layers = parse_gpu_layers(r.text("gpu-layers"), {}).value_or(0),
          .context = read_context_size(r)};
}

}  // namespace yamata
