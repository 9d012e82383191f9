#include "launch/commands/inspect_options.hpp"

#include <fmt/format.h>

#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"
#include "node/error.hpp"

namespace yamata {

Flags inspect_flags() {
  auto flags = describe("inspect", "Shows the contents of a model file, and what each rank of a split would hold; or a tree of guesses.");
  flags.group("Output")("--tensors", "List every tensor");
  flags.group("Cluster")("--layer-split, --mpi-layer-split",
                         "The split to show: the share of the layers per rank, such as 0.5,0.3,0.2; ranks joined by + share each "
                         "layer: 0.5+0.5; auto: by the bytes of the layers, over the ranks that mpirun starts, or one",
                         FlagKind::kWord, "SPLIT", "auto");
  add_machine_units(flags, "Machine");
  flags.group("Machine")("-md, --model-draft", "-md, draft model: show its memory, too", FlagKind::kFile, "FILE");
  flags.group("Context")("-c, --ctx-size", kContextSize, FlagKind::kInt, "N", "0");
  auto tree = flags.group("Speculation");
  tree("--tree",
       "Instead of a model, show a tree and its attention mask: a file as for run --tree, or the tree of a run, from a file of run --trace",
       FlagKind::kFile, "FILE");
  tree("--draft", "With a file of acceptance rates, or of profile --tree-out: how many guesses the tree has", FlagKind::kInt, "N", "63");
  tree("--run", "With a trace: the number of the run (0: the first of those with the most guesses)", FlagKind::kUint64, "N", "0");
  flags.group("Output")("--json", "With --tree: write the tree and its mask to this file", FlagKind::kFile, "FILE");
  return flags;
}

namespace {

InspectOptions read_inspected_tree(const GivenFlags& r) {
  for (const char* flag : {"model", "tensors", "layer-split", "units", "gpu-layers", "draft-units", "heads", "model-draft", "ctx-size"}) {
    if (r.given(flag)) throw UsageError(fmt::format("{} has no effect with --tree, which shows a tree alone; leave it out", r.shown(flag)));
  }
  return {.tree_file = r.text("tree"),
          .json_file = r.text("json"),
          .draft = number_in(r, "draft", 1, 64, "between 1 and 64").value_or(0),
          .run = r.number<std::uint64_t>("run")};
}

}  // namespace

InspectOptions read_inspect(const GivenFlags& r) {
  if (r.given("tree")) return read_inspected_tree(r);
  for (const char* flag : {"draft", "run", "json"}) {
    if (r.given(flag)) throw UsageError(fmt::format("{} has no effect without --tree", r.shown(flag)));
  }
  return {.model = read_model(r),
          .tensors = r.given("tensors"),
          .layer_split = LayerSplit::parse(r.text("layer-split")),
          .machine = read_machine_units(r),
          .context = read_context_size(r)};
}

}  // namespace yamata
