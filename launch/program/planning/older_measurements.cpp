#include "launch/program/planning/older_measurements.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "launch/program/planning/kept_values.hpp"

namespace yamata {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxBytes = 64 << 10;
constexpr std::array<std::string_view, 9> kKinds{"speed", "threads", "widths",   "first-choices", "link",
                                                 "group", "savings", "forecast", "units"};

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// A name without ".PID.tmp"; empty if it does not end so.
std::string_view without_temporary(std::string_view name) {
  constexpr std::string_view kEnd = ".tmp";
  if (!name.ends_with(kEnd)) return {};
  name.remove_suffix(kEnd.size());
  const std::size_t dot = name.rfind('.');
  return dot != std::string_view::npos && is_number(name.substr(dot + 1)) ? name.substr(0, dot) : std::string_view{};
}

/// Whether the first word of the file is "yamata-KIND-" and a number.
bool begins_with(const fs::path& path, std::string_view kind) {
  constexpr std::string_view kOurs = "yamata-";
  std::ifstream in(path);
  std::string word;
  in >> word;
  std::string_view rest = word;
  if (!rest.starts_with(kOurs)) return false;
  rest.remove_prefix(kOurs.size());
  if (!rest.starts_with(kind)) return false;
  rest.remove_prefix(kind.size());
  return rest.starts_with('-') && is_number(rest.substr(1));
}

bool is_older_measurement(const fs::directory_entry& entry) {
  std::error_code unseen;
  const std::string file = entry.path().filename();
  const std::string_view temporary = without_temporary(file);
  const std::string_view name = temporary.empty() ? std::string_view(file) : temporary;
  if (entry.symlink_status(unseen).type() != fs::file_type::regular || entry.file_size(unseen) > kMaxBytes) return false;
  if (name == kMeasurementsFile) return !temporary.empty();
  const auto kind = std::ranges::find(kKinds, name.substr(std::min(name.rfind('.'), name.size() - 1) + 1));
  return kind != kKinds.end() && begins_with(entry.path(), *kind);
}

}  // namespace

void remove_older_measurements(const std::string& folder) {
  std::vector<fs::path> ours;
  std::error_code unseen;
  for (fs::directory_iterator entry(folder, unseen), end; !unseen && entry != end; entry.increment(unseen)) {
    if (is_older_measurement(*entry)) ours.push_back(entry->path());
  }
  for (const fs::path& path : ours) fs::remove(path, unseen);
}

}  // namespace yamata
