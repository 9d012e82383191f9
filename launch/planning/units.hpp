#pragma once
// Which compute units a rank is made of.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/cpu/kernels/kernels.hpp"
#include "node/split_unit.hpp"
#include "node/topology.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

/// A group of CPU cores.
struct UnitSpec {
  std::string name;             ///< "cpu:0-3", as it was written
  std::vector<int> cpus;        ///< logical CPUs, one thread on each
  std::optional<double> share;  ///< of the columns; nothing: by measured time
};

/// Throws UsageError where this process may not use a core.
void require_cores(const std::vector<UnitSpec>& specs);
/// Throws UsageError where a layer cannot be cut into so many parts.
void require_parts(const std::vector<UnitSpec>& specs, const Hyperparameters& h);

/// All of them, on their cores where `topology` is this machine's.
std::vector<int> cpus_of(const std::vector<UnitSpec>& specs, const Topology& topology);
/// As it was written, but for the shares: "cpu:0-3+cpu:4-7". Empty for none.
std::string names_of(const std::vector<UnitSpec>& specs);

/// One unit of them all, be they one. Its cache is spread over the memories of all their cores.
std::unique_ptr<SplitUnit> make_split_unit(const std::vector<UnitSpec>& specs, bool adapts, cpu::Isa isa, const Topology& topology);

}  // namespace yamata
