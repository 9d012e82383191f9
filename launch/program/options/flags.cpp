#include "launch/program/options/flags.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

namespace yamata {
namespace {

constexpr std::size_t kColumns = 110, kWidestFlag = 30, kGap = 2;

bool is_long(std::string_view spelled) { return spelled.starts_with("--"); }

/// "  -n, --predict N"
std::string left_column(const Flag& flag) {
  const std::string letter = flag.letter();
  const std::string text = (letter.empty() ? "     " : "  " + letter + ",") + " --" + flag.name;
  return flag.kind == FlagKind::kSwitch ? text : text + " " + flag.placeholder;
}

/// The words in lines shorter than `width`, each but the last with a space at its end.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indentation) {
  std::istringstream words(text);
  std::string out, line;
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + word.size() >= width) {
      out += line + "\n" + std::string(indentation, ' ');
      line.clear();
    }
    line += word + " ";
  }
  line.pop_back();
  return out + line;
}

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

std::string Flags::help() const {
  std::string text = what_ + "\nUsage:\n  yamata " + command_ + " " + (takes_words() ? words_ : "[OPTION...]") + "\n";
  for (const std::string& group : listed_groups()) {
    text += group.empty() ? "\n" : "\n " + group + " options:\n";
    std::size_t left = 0;
    for (const Flag& flag : all_) left = std::max(left, flag.group == group ? left_column(flag).size() : 0);
    left = std::min(left, kWidestFlag) + kGap;
    for (const Flag& flag : all_) {
      if (flag.group != group) continue;
      const std::string column = left_column(flag), fallback = flag.fallback.empty() ? "" : " (default: " + flag.fallback + ")";
      text += column + (column.size() + kGap > left ? "\n" + std::string(left, ' ') : std::string(left - column.size(), ' '));
      text += wrapped(flag.help + fallback, kColumns - left, left) + "\n";
    }
  }
  return text;
}

}  // namespace yamata
