#pragma once
// yamata plan and inspect for one machine: its units, and what guesses there.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"
#include "launch/program/planning/drafting_cost.hpp"
#include "mpi/planning/memory_plan.hpp"
#include "mpi/protocol/wire.hpp"
#include "src/draft_heads/draft_heads_file.hpp"
#include "src/model/model_file.hpp"

namespace yamata {

struct MachineUnits {
  std::vector<UnitSpec> units, draft_units;  ///< as in ComputeOptions
  std::optional<int> gpu_layers;             ///< likewise
  std::string draft_heads, draft_model;      ///< files; at most one
  double bus_gb_s = 12;                      ///< at which weights would be copied to the device: most of PCIe 3.0 with 16 lanes
};

/// --units, -ngl, --draft-units and --heads.
void add_machine_units(Flags& flags, const char* group);
/// Throws UsageError naming the invalid flag, or both of --heads and -md.
MachineUnits read_machine_units(const GivenFlags& r);

/// What guesses: a draft model or heads.
struct MachineDraft {
  std::optional<ModelFile> model;
  std::optional<draft_heads::DraftHeadsFile> heads;
  draft_heads::Needs needs;  ///< of the heads

  bool guesses() const { return model || heads; }
};
/// Opens the files. Throws ModelError if they are damaged or do not fit the target.
MachineDraft open_draft(const MachineUnits& machine, const ModelFile& target, CacheTypes cache_types);

/// The parts of the target (its ranks are this machine's) and, on the first rank, of the draft, with the layers that the device computes
/// alone in `pipelines.front().first_layers`. `target`: the target's ranks, layers and shares. Warns of ranks that get no layer on
/// a device, although -ngl asks for some. Throws UsageError if --units names a device that this machine does not have, or if the layers do
/// not fit into its memory.
wire::Start plan_machine(const MachineUnits& machine, const ModelFile& model, const MachineDraft& draft, wire::PipelinePlan target,
                         CacheTypes cache_types, int batch);
/// Bytes of the draft on its unit, for the plan above.
RankBytes draft_bytes(const ModelFile& target, const MachineDraft& draft, const wire::Start& plan);

/// Measures layers of the models on the units. `threads`: as -t. Throws like plan_machine.
DraftingTimes measure_drafting(const MachineUnits& machine, const ModelFile& target, const MachineDraft& draft, std::int64_t device_layers,
                               int threads, double acceptance);

}  // namespace yamata
