#pragma once
// Which compute units a rank is made of.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "node/cpu/kernels/kernels.hpp"
#include "node/layered_unit.hpp"
#include "node/split_unit.hpp"
#include "node/topology.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

/// A group of CPU cores, or a device.
struct UnitSpec {
  std::string name;               ///< "cpu:0-3", "cpu" or "cuda:0", as it was written
  std::vector<int> cpus;          ///< logical CPUs, one thread on each; of "cpu" known only to the rank
  std::optional<double> share{};  ///< of the columns; nothing: by measured time
  bool device = false;

  /// "cpu": the cores that the rank has besides.
  bool takes_the_rest() const { return !device && cpus.empty(); }
};

/// A rank's place on its machine.
struct RankPlace {
  const Topology& topology;
  int local_rank = 0, local_size = 1;
  Numa numa = Numa::kAuto;
};

/// The units as this rank has them, "cpu" with its cores: so many threads, or 0: all of the rank's cores but one for each device, whose
/// work a thread of the host puts in order; where they `take_turns`, all. Throws UsageError where this process may not use a core, or there
/// is no such device.
std::vector<UnitSpec> find_units(std::vector<UnitSpec> specs, int threads, const RankPlace& place, bool take_turns = false);
/// "cpu" and the device of the rank's number on its machine, or "cpu" alone; `why_not` then says why.
std::vector<UnitSpec> cores_and_device(const RankPlace& place, std::string& why_not);
/// In one line, which ranks were to have a device and have none, and why; empty where there are no such ranks.
std::string ranks_without_device(const std::vector<wire::Hello>& hellos);
/// How many of them share layers; with `layered` the device has whole layers.
std::int64_t sharing_units(const std::vector<UnitSpec>& specs, bool layered);
/// Throws UsageError where a layer of the model cannot be cut into so many parts. With `layered` the device has whole layers.
void require_fit(const std::vector<UnitSpec>& specs, const Hyperparameters& h, bool layered = false);

/// Of all threads, on their cores where `topology` is this machine's; -1: not bound.
std::vector<int> cpus_of(const std::vector<UnitSpec>& specs, const Topology& topology);
/// As it was written, but for the shares: "cpu:0-3+cpu:4-7". Empty for none.
std::string names_of(const std::vector<UnitSpec>& specs);

/// One of them. Throws UsageError where another process has the device.
std::unique_ptr<ComputeUnit> make_one_unit(const UnitSpec& spec, cpu::Isa isa, const RankPlace& place, const std::vector<int>& nodes);
/// One unit of them all, be they one. Its cache is spread over the memories of all their cores.
std::unique_ptr<SplitUnit> make_split_unit(const std::vector<UnitSpec>& specs, bool adapts, cpu::Isa isa, const RankPlace& place);
/// One of them all, whose device has a model's first layers, and whose cores have the rest, which several groups of them share.
std::unique_ptr<LayeredUnit> make_layered_unit(const std::vector<UnitSpec>& specs, cpu::Isa isa, const RankPlace& place);

}  // namespace yamata
