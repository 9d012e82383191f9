#pragma once
// The compute units of a rank.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "node/cpu/kernels/kernels.hpp"
#include "node/topology.hpp"
#include "node/units/layered_unit.hpp"
#include "node/units/split_unit.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

/// A group of CPU cores, or a device.
struct UnitSpec {
  std::string name;               ///< "cpu:0-3", "cpu" or "cuda:0", as in the flag
  std::vector<int> cpus;          ///< logical CPUs, one thread on each; of "cpu", known only to the rank
  std::optional<double> share{};  ///< of the columns; nothing: by measured time
  bool device = false;

  /// "cpu": the rank's other cores.
  bool takes_the_rest() const { return !device && cpus.empty(); }
};

/// A rank's place on its machine.
struct RankPlace {
  const Topology& topology;
  int local_rank = 0, local_size = 1;
  Numa numa = Numa::kAuto;
};

/// The units of this rank, with the cores of "cpu": `threads` of them; or, if it is 0, all cores of the rank except one for each device,
/// whose operations a host thread enqueues; if the units `take_turns`, all. Throws UsageError if this process may not use a core, if there
/// is no such device, or if YAMATA_DEVICE has an unknown word; the message names `flag`.
std::vector<UnitSpec> find_units(std::vector<UnitSpec> specs, int threads, const RankPlace& place, bool take_turns = false,
                                 const char* flag = "--units");
/// "cpu" and the device whose number is the rank's number on its machine; or "cpu" alone, and the reason in `why_not`.
std::vector<UnitSpec> cores_and_device(const RankPlace& place, std::string& why_not);
/// One line: the ranks that should have a device but have none, and why. Empty if there are none.
std::string ranks_without_device(const std::vector<wire::Hello>& hellos);
/// A line for each rank whose device should compute as many layers as fit, and gets none in this plan.
std::vector<std::string> ranks_without_layers(const wire::Start& plan, const std::vector<wire::Hello>& hellos);
/// Number of units that share layers. `layered`: the device computes whole layers.
std::int64_t sharing_units(const std::vector<UnitSpec>& specs, bool layered);
/// Throws UsageError, which names `flag`, if a layer of the model cannot be divided into that many parts. `layered`: the device computes
/// whole layers.
void require_fit(const std::vector<UnitSpec>& specs, const Hyperparameters& h, bool layered = false, const char* flag = "--units");

/// The CPUs of all threads, bound to cores if `topology` is this machine's; -1: not bound.
std::vector<int> cpus_of(const std::vector<UnitSpec>& specs, const Topology& topology);
/// As in the flag, without the shares: "cpu:0-3+cpu:4-7". Empty for none.
std::string names_of(const std::vector<UnitSpec>& specs);

/// Makes a single unit. Throws UsageError if another process uses the device.
std::unique_ptr<ComputeUnit> make_one_unit(const UnitSpec& spec, cpu::Isa isa, const RankPlace& place, const std::vector<int>& nodes);
/// Makes one unit from all of them, even if there is only one. Its cache is spread over the memories of all their cores.
std::unique_ptr<SplitUnit> make_split_unit(const std::vector<UnitSpec>& specs, bool adapts, cpu::Isa isa, const RankPlace& place);
/// Makes one unit from all of them: its device has a model's first layers, and its cores have the others; several groups of cores share
/// them.
std::unique_ptr<LayeredUnit> make_layered_unit(const std::vector<UnitSpec>& specs, cpu::Isa isa, const RankPlace& place);

}  // namespace yamata
