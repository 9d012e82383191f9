#include "launch/program/options/unit_flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "launch/program/options/flag_values.hpp"
#include "node/device_units.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr int kMaxCpus = 4096;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> words(1);
  for (const char c : text) c == at ? static_cast<void>(words.emplace_back()) : words.back().push_back(c);
  return words;
}

UnitSpec parse_unit(const std::string& word, const char* flag) {
  const std::vector<std::string> sides = split(word, '=');
  UnitSpec spec{.name = sides[0], .cpus = {}, .share = {}, .device = is_device_name(sides[0])};
  const bool cores = spec.name.starts_with("cpu:");
  if ((!cores && !spec.device && spec.name != "cpu") || sides.size() > 2)
    throw UsageError(fmt::format(
        "{}: '{}' is no unit; write cpu, cpu:CORES or a device such as cuda:0, each with =SHARE or none, as in cpu:0-3=0.6", flag, word));
  if (spec.name == "cpu:") throw UsageError(fmt::format("{}: '{}' has no cores; name them, as in cpu:0-3", flag, word));
  if (cores) spec.cpus = parse_counts(flag, spec.name.substr(4), 0, kMaxCpus, "0-3 or 0,2");
  if (sides.size() == 1) return spec;
  spec.share = parse_number(sides[1]);
  if (!(*spec.share > 0 && *spec.share <= 1))
    throw UsageError(fmt::format("{}: the share in '{}' must be above 0 and at most 1", flag, word));
  return spec;
}

void require_own_cores(const std::vector<UnitSpec>& specs, const char* flag) {
  std::set<int> taken;
  std::set<std::string> devices;
  const auto groups = std::ranges::count_if(specs, [](const UnitSpec& spec) { return !spec.device; });
  for (const UnitSpec& spec : specs) {
    for (const int cpu : spec.cpus)
      if (!taken.insert(cpu).second) throw UsageError(fmt::format("{}: core {} is named twice; give it to one unit", flag, cpu));
    if (spec.device && !devices.insert(spec.name).second)
      throw UsageError(fmt::format("{}: {} is named twice; a device is one unit", flag, spec.name));
    if (spec.takes_the_rest() && groups > 1)
      throw UsageError(fmt::format("{}: 'cpu' is all cores of the rank; beside other cores name which they are, as in cpu:0-3", flag));
  }
}

/// If all units but one have a share, that one gets the rest.
void complete_shares(std::vector<UnitSpec>& specs, const char* flag) {
  constexpr double kRounding = 0.005;
  double sum = 0;
  std::vector<UnitSpec*> without;
  for (UnitSpec& spec : specs) spec.share ? static_cast<void>(sum += *spec.share) : without.push_back(&spec);
  if (without.size() == specs.size()) return;
  if (without.size() > 1)
    throw UsageError(fmt::format("{}: some units have a share and some have none; give one to each, to all but one, or to none", flag));
  if (without.size() == 1) {
    if (sum > 1 - kRounding)
      throw UsageError(fmt::format("{}: the shares add up to {:.3g}, and nothing is left for {}", flag, sum, without[0]->name));
    without[0]->share = 1 - sum;
  } else if (std::abs(sum - 1) > kRounding) {
    throw UsageError(fmt::format("{}: the shares add up to {:.3g}, not to 1", flag, sum));
  }
}

}  // namespace

int parse_gpu_layers(const std::string& text, const std::vector<UnitSpec>& specs) {
  const double number = text == "auto" ? wire::kLayersThatFit : parse_number(text);
  if (!(number >= 0 && number <= wire::kLayersThatFit) || number != std::floor(number))
    throw UsageError(fmt::format("-ngl must be a number of layers from 0 on, or auto, not '{}'", text));
  const auto devices = std::ranges::count_if(specs, &UnitSpec::device);
  if (number > 0 && !specs.empty() && (devices != 1 || specs.size() < 2))
    throw UsageError(fmt::format(
        "-ngl {}: the first layers are a device's, all others the cores'; name one device and cores, as in --units cpu+cuda:0", text));
  if (devices > 0 && specs.front().share)
    throw UsageError(
        fmt::format("-ngl {}: a device that has whole layers has no share of others; leave out the shares in --units, or -ngl", text));
  return static_cast<int>(number);
}

void set_offload(ComputeOptions& compute, const std::string& flag, bool wanted) {
  if (!wanted) return;
  compute.offload = true;
  if (compute.gpu_layers.value_or(0) == 0)
    throw UsageError(flag + " copies layers to a GPU for every run; say with -ngl how many stay there: a number from 1 on, or auto");
  if (!compute.repack) throw UsageError(flag + " copies packed weights; leave out --no-repack");
}

AttentionCut parse_attention_cut(const std::string& text, const std::vector<UnitSpec>& specs) {
  const auto cut = std::ranges::find(kAttentionCutNames, text);
  if (cut == kAttentionCutNames.end()) throw UsageError(fmt::format("--attention-cut must be heads, dynamic or static, not '{}'", text));
  if (text != "heads" && specs.size() < 2) throw UsageError("--attention-cut divides attention among units; name two with --units");
  return static_cast<AttentionCut>(cut - kAttentionCutNames.begin());
}

std::string gpu_layers_text(int layers) { return layers == wire::kLayersThatFit ? "auto" : std::to_string(layers); }

void require_idle_threads(const std::vector<UnitSpec>& specs) {
  if (!specs.empty() && std::ranges::none_of(specs, &UnitSpec::takes_the_rest))
    throw UsageError("--units says which cores there are threads on; leave out -t");
}

std::vector<UnitSpec> read_units(const GivenFlags& r) {
  std::vector<UnitSpec> units = parse_units(r.text("units"));
  if (r.given("threads")) require_idle_threads(units);
  return units;
}

std::vector<UnitSpec> parse_units(const std::string& text, const char* flag) {
  if (text == "auto") return {};
  std::vector<UnitSpec> specs;
  for (const std::string& word : split(text, '+')) specs.push_back(parse_unit(word, flag));
  if (std::ssize(specs) > kMaxUnits)
    throw UsageError(fmt::format("{}: {} are more than the {} that can share a layer", flag, specs.size(), kMaxUnits));
  require_own_cores(specs, flag);
  complete_shares(specs, flag);
  return specs;
}

}  // namespace yamata
