#include "launch/program/options/flags.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

namespace yamata {
namespace {

bool is_long(std::string_view spelled) { return spelled.starts_with("--"); }

}  // namespace

bool takes_files(FlagKind kind) { return kind == FlagKind::kFile || kind == FlagKind::kFiles || kind == FlagKind::kFolder; }
bool takes_text(FlagKind kind) { return kind == FlagKind::kText || takes_files(kind); }

std::string Flag::letter() const { return spelled.front().size() == 2 ? spelled.front() : ""; }

std::string Flag::shown() const {
  const std::string& first = spelled.front();
  return !is_long(first) && first.size() > 2 ? first : "--" + name;
}

const FlagGroup& FlagGroup::operator()(const char* spelled, std::string help, FlagKind kind, std::string placeholder,
                                       std::string fallback) const {
  Flag flag{name_, {}, "", std::move(help), kind, std::move(placeholder), std::move(fallback)};
  std::istringstream all(spelled);
  for (std::string word; std::getline(all >> std::ws, word, ',');) flag.spelled.push_back(word);
  flag.name = std::ranges::find_if(flag.spelled, is_long)->substr(2);
  flags_.add(std::move(flag));
  return *this;
}

std::vector<std::string> Flags::names(const std::string& group) const {
  std::vector<std::string> names;
  for (const Flag& flag : all_) {
    if (flag.group == group) names.push_back(flag.name);
  }
  return names;
}

const Flag* Flags::find(std::string_view spelled) const {
  const auto found = std::ranges::find_if(all_, [&](const Flag& flag) { return std::ranges::count(flag.spelled, spelled) > 0; });
  return found == all_.end() ? nullptr : &*found;
}

std::vector<std::string> Flags::listed_groups() const {
  static const std::vector<std::string> kOrder{
      "General", "Text",        "Features", "Test",    "Profile", "Job",   "Machines and network", "Sampling", "Context",
      "Draft",   "Speculation", "Baseline", "Cluster", "Machine", "Output"};
  std::vector<std::string> groups;
  for (const Flag& flag : all_) {
    if (flag.group != kUnlistedGroup && std::ranges::count(groups, flag.group) == 0) groups.push_back(flag.group);
  }
  std::ranges::stable_sort(groups, {}, [](const std::string& group) { return std::ranges::find(kOrder, group) - kOrder.begin(); });
  return groups;
}

std::vector<std::string> Flags::listed() const {
  std::vector<std::string> listed;
  for (const std::string& group : listed_groups()) {
    for (const Flag& flag : all_) {
      if (flag.group == group) listed.insert(listed.end(), flag.spelled.begin(), flag.spelled.end());
    }
  }
  return listed;
}

}  // namespace yamata
