#include "launch/unit_flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "launch/flag_values.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr int kMostCpus = 4096;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> words(1);
  for (const char c : text) c == at ? static_cast<void>(words.emplace_back()) : words.back().push_back(c);
  return words;
}

UnitSpec parse_unit(const std::string& word) {
  const std::vector<std::string> sides = split(word, '=');
  UnitSpec spec{.name = sides[0], .cpus = {}, .share = {}};
  if (!spec.name.starts_with("cpu:") || sides.size() > 2)
    throw UsageError(fmt::format("--units: '{}' is no unit; write cpu:CORES or cpu:CORES=SHARE, as in cpu:0-3=0.6", word));
  const std::string cores = spec.name.substr(4);
  if (cores.empty()) throw UsageError(fmt::format("--units: '{}' has no cores; name them, as in cpu:0-3", word));
  spec.cpus = parse_counts("--units", cores, 0, kMostCpus);
  if (sides.size() == 1) return spec;
  spec.share = parse_number(sides[1]);
  if (!(*spec.share > 0 && *spec.share <= 1))
    throw UsageError(fmt::format("--units: the share in '{}' must be above 0 and at most 1", word));
  return spec;
}

void require_own_cores(const std::vector<UnitSpec>& specs) {
  std::set<int> taken;
  for (const UnitSpec& spec : specs)
    for (const int cpu : spec.cpus)
      if (!taken.insert(cpu).second) throw UsageError(fmt::format("--units: core {} is named twice; give it to one unit", cpu));
}

void require_whole(const std::vector<UnitSpec>& specs) {
  const auto given = std::ranges::count_if(specs, [](const UnitSpec& spec) { return spec.share.has_value(); });
  if (given == 0) return;
  if (given < std::ssize(specs)) throw UsageError("--units: some units have a share and some have none; give one to each, or to none");
  double sum = 0;
  for (const UnitSpec& spec : specs) sum += *spec.share;
  if (std::abs(sum - 1) > 0.005) throw UsageError(fmt::format("--units: the shares add up to {:.3g}, not to 1", sum));
}

}  // namespace

std::vector<UnitSpec> parse_units(const std::string& text) {
  if (text == "auto") return {};
  std::vector<UnitSpec> specs;
  for (const std::string& word : split(text, '+')) specs.push_back(parse_unit(word));
  if (std::ssize(specs) > kMostUnits)
    throw UsageError(fmt::format("--units: {} are more than the {} that can share a layer", specs.size(), kMostUnits));
  require_own_cores(specs);
  require_whole(specs);
  return specs;
}

}  // namespace yamata
