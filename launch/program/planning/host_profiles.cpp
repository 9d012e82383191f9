#include "launch/program/planning/host_profiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "launch/program/input/input_text.hpp"
#include "launch/program/input/json_number.hpp"
#include "node/error.hpp"

namespace yamata {

namespace {

/// A host name or address, and what mpirun's hostfiles say about it: NAME=VALUE, and a comment.
const std::regex kHostLine(R"(\s*([A-Za-z0-9][A-Za-z0-9._:@-]*)((?:\s+[A-Za-z_-]+\s*=\s*\S+)*)\s*(?:#.*)?)");
const std::regex kNoSlots(R"(\s(?:max[-_])?(?:slots|count|cpu)\s*=\s*(?!0*[1-9][0-9]*(?:\s|$))\S+)");

/// The measured widths in ascending order.
std::vector<simulation::WidthTime> read_widths(const nlohmann::json& runs) {
  constexpr double kMaxRows = 1024, kMaxSeconds = 1e6;  // as many rows as yamata profile measures
  std::vector<simulation::WidthTime> widths;
  for (const nlohmann::json& run : runs) {
    const std::string where = fmt::format("widths[{}].", widths.size());
    const std::int64_t rows = whole_number(run, "width", 1, kMaxRows, where);
    widths.push_back({static_cast<std::size_t>(rows), number(run, "time_s", 1e-12, kMaxSeconds, where)});
  }
  if (widths.empty()) throw ModelError("it has no times of any width");
  std::ranges::sort(widths, {}, &simulation::WidthTime::rows);
  if (std::ranges::adjacent_find(widths, {}, &simulation::WidthTime::rows) != widths.end())
    throw ModelError("'widths' has one width twice");
  return widths;
}

HostProfile read_profile(const nlohmann::json& j) {
  const nlohmann::json& machine = j.at("machine");
  if (!j.contains("model")) throw ModelError("it is of a machine without a model; add one: yamata profile -m FILE.gguf --json ...");
  HostProfile profile;
  PlannedHost& host = profile.host;
  host.threads = static_cast<int>(whole_number(j.at("model"), "threads", 1, 1e6, "model."));
  if (machine.contains("available_bytes"))
    host.free_bytes = static_cast<std::uint64_t>(whole_number(machine, "available_bytes", 0, 1e18, "machine."));
  profile.weight_bytes = number(j.at("model"), "weight_bytes", 1, 1e18, "model.");
  const std::vector<double> times = times_by_width(read_widths(j.at("widths")));
  host.ns_per_byte = 1e9 * times[0] / profile.weight_bytes;
  if (times.size() > 1) host.width = simulation::WidthCost(times);
  return profile;
}

}  // namespace

std::vector<std::string> read_hostfile(const std::string& path) {
  std::istringstream lines(read_text(path, {"--hostfile"}));
  std::vector<std::string> names;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    std::smatch parts;
    if (line.size() > 1000 || !std::regex_match(line, parts, kHostLine))
      throw ModelError(fmt::format("--hostfile {}: line {} is no host; write HOST or HOST slots=N", path, number));
    const std::string numbers = parts[2];
    if (std::regex_search(numbers, kNoSlots))
      throw ModelError(fmt::format("--hostfile {}: line {} has no slot for a rank; give {} slots=1 or more, or remove the line", path,
                                   number, parts[1].str()));
    names.push_back(parts[1]);
  }
  if (names.empty()) throw ModelError(fmt::format("--hostfile {}: it names no host; write one per line", path));
  return names;
}

HostProfile read_profile(const std::string& path) {
  const std::string text = read_text(path, {"--profiles"});  // its errors name the file
  try {
    HostProfile profile = read_profile(nlohmann::json::parse(text));
    profile.file = path;
    profile.host.name = std::filesystem::path(path).stem();
    return profile;
  } catch (const nlohmann::json::exception&) {
    throw ModelError(fmt::format("{} is no profile; 'yamata profile -m FILE.gguf --json FILE' writes one", path));
  } catch (const ModelError& error) {
    throw ModelError(fmt::format("{}: {}", path, error.what()));
  }
}

std::vector<std::string> profile_files(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  if (error)
    throw ModelError(
        fmt::format("--profiles {}: {}; name a folder in which 'yamata profile -m FILE.gguf --json FOLDER/HOST.json' wrote profiles",
                    folder, error.message()));
  if (paths.empty())
    throw ModelError(fmt::format("--profiles {}: no *.json in it; 'yamata profile -m FILE.gguf --json FILE' writes one", folder));
  std::ranges::sort(paths);
  return paths;
}

std::vector<HostProfile> read_profiles(const std::string& folder) {
  std::vector<HostProfile> profiles;
  for (const std::string& path : profile_files(folder)) profiles.push_back(read_profile(path));
  return profiles;
}

}  // namespace yamata
