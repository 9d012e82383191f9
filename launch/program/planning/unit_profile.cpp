#include "launch/program/planning/unit_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "launch/program/planning/share_tuner.hpp"

namespace yamata {
namespace {

constexpr const char* kUnitsWord = "yamata-units-2";
constexpr int kMaxClasses = 6, kLargestContext = 2048;

constexpr const char* kName = ".units";
constexpr char kEnd = ';';  // of each part

/// A part of the text: kind, outputs, inputs, class, context, number of units; then for each unit its isolated seconds and its share.
std::optional<UnitWork> read_work(const std::string& line) {
  std::istringstream in(line);
  int what = 0;
  std::size_t units = 0;
  UnitWork work;
  WorkKind& kind = work.kind;
  if (!(in >> what >> kind.outputs >> kind.inputs >> kind.width_class >> kind.context >> units)) return std::nullopt;
  const bool good = (what == 0 || what == 1) && kind.outputs > 0 && kind.inputs > 0 && kind.width_class >= 0 &&
                    kind.width_class < kMaxClasses && kind.context >= 0 && kind.context <= kLargestContext && units >= 2 &&
                    units <= kMaxUnits;
  if (!good) return std::nullopt;
  kind.what = static_cast<WorkKind::What>(what);
  for (std::size_t unit = 0; unit < units; ++unit) {
    double seconds = 0, share = 0;
    if (!(in >> seconds >> share) || !std::isfinite(seconds) || seconds <= 0 || !(share > 0 && share <= 1)) return std::nullopt;
    work.isolated_s.push_back(seconds);
    work.shares.push_back(share);
  }
  std::string rest;
  if (in >> rest) return std::nullopt;
  return work;
}

}  // namespace

std::string kept_name(const std::vector<UnitSpec>& units, AttentionCut cut) {
  const auto name = kAttentionCutNames[static_cast<std::size_t>(cut)];
  return names_of(units) + (cut == AttentionCut::kHeads ? "" : fmt::format("-{}", name));
}

std::optional<UnitProfile> read_unit_profile(const std::string& folder, const MeasurementKey& key, std::int64_t now_s) {
  std::istringstream in{std::string(KeptValues(folder).find(key.name(kName)))};
  std::string line, word;
  std::int64_t written_s = 0;
  UnitProfile profile;
  if (!std::getline(in, line, kEnd)) return std::nullopt;
  std::istringstream first(line);
  if (!(first >> word >> profile.ns_per_byte >> written_s) || word != kUnitsWord) return std::nullopt;
  if (!std::isfinite(profile.ns_per_byte) || profile.ns_per_byte <= 0 || written_s > now_s || written_s <= now_s - kKept_s)
    return std::nullopt;
  while (std::getline(in, line, kEnd)) {
    auto work = read_work(line);
    if (!work || (!profile.works.empty() && work->shares.size() != profile.works.front().shares.size())) return std::nullopt;
    profile.works.push_back(std::move(*work));
  }
  if (profile.works.empty()) return std::nullopt;
  return profile;
}

void keep_unit_profile(const std::string& folder, const MeasurementKey& key, const UnitProfile& profile, std::int64_t now_s) {
  std::string text = fmt::format("{} {} {}{}", kUnitsWord, profile.ns_per_byte, now_s, kEnd);
  for (const UnitWork& work : profile.works) {
    const WorkKind& kind = work.kind;
    text += fmt::format("{} {} {} {} {} {}", static_cast<int>(kind.what), kind.outputs, kind.inputs, kind.width_class, kind.context,
                        work.shares.size());
    for (std::size_t unit = 0; unit < work.shares.size(); ++unit) text += fmt::format(" {} {}", work.isolated_s[unit], work.shares[unit]);
    text += kEnd;
  }
  keep_value(folder, {key.name(kName), text, now_s + kKept_s}, now_s);
}

void apply(const UnitProfile& profile, ShareRule rule, SplitUnit& unit) {
  if (rule != ShareRule::kAdaptive) unit.divide_attention_apart();
  for (const UnitWork& work : profile.works) {
    if (static_cast<int>(work.shares.size()) != unit.units()) continue;
    unit.shares().set(work.kind, rule == ShareRule::kIsolated ? isolated_shares(work.isolated_s) : work.shares);
  }
}

}  // namespace yamata
