#include "launch/commands/unit_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>

#include "launch/program/planning/share_tuner.hpp"

namespace yamata {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kWidthClasses{"1", "2-4", "5-8", "9-16", "17-32", "more"};

bool is_product(const UnitWork& work) { return work.kind.what == WorkKind::What::kProduct; }

std::string name_of(const UnitWork& work) {
  return is_product(work) ? fmt::format("product {} x {}", work.kind.outputs, work.kind.inputs)
                          : fmt::format("attention {} x {}", work.kind.outputs, work.kind.inputs);
}

}  // namespace

std::string to_table(const UnitProfile& profile, const std::vector<UnitSpec>& specs) {
  constexpr const char* kRow = "{:<24} {:>6} {:>8} {:>24} {:>20} {:>20}\n";
  std::string out =
      fmt::format("units {}; one layer and the output, {:.3f} ns per byte together\n\n", names_of(specs), profile.ns_per_byte);
  out += fmt::format(kRow, "work", "width", "context", "alone ms", "shares by that", "shares together");
  for (const UnitWork& work : profile.works) {
    std::vector<double> alone_ms;
    for (const double seconds : work.isolated_s) alone_ms.push_back(1e3 * seconds);
    out += fmt::format(kRow, name_of(work), kWidthClasses.at(static_cast<std::size_t>(work.kind.width_class)),
                       is_product(work) ? "" : std::to_string(work.kind.context), fmt::format("{:.3f}", fmt::join(alone_ms, " ")),
                       fmt::format("{:.3f}", fmt::join(isolated_shares(work.isolated_s), " ")),
                       fmt::format("{:.3f}", fmt::join(work.shares, " ")));
  }
  return out;
}

std::string to_json(const UnitProfile& profile, const std::vector<UnitSpec>& specs) {
  Json j{{"units", Json::array()}, {"ns_per_byte", profile.ns_per_byte}, {"works", Json::array()}};
  for (const UnitSpec& spec : specs) j["units"].push_back(spec.name);
  for (const UnitWork& work : profile.works) {
    Json entry{{"kind", is_product(work) ? "product" : "attention"},
               {"outputs", work.kind.outputs},
               {"inputs", work.kind.inputs},
               {"width", kWidthClasses.at(static_cast<std::size_t>(work.kind.width_class))}};
    if (!is_product(work)) entry["context"] = work.kind.context;
    entry["isolated_s"] = work.isolated_s;
    entry["shares"] = work.shares;
    j["works"].push_back(std::move(entry));
  }
  return j.dump(2) + "\n";
}

}  // namespace yamata
