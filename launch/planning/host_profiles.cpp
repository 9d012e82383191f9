#include "launch/planning/host_profiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "launch/input/input_text.hpp"
#include "node/error.hpp"

namespace yamata {

namespace {

/// A host name or address, and what mpirun's hostfiles say about it: NAME=VALUE, and a comment.
const std::regex kHostLine(R"(\s*([A-Za-z0-9][A-Za-z0-9._:@-]*)((?:\s+[A-Za-z_-]+\s*=\s*\S+)*)\s*(?:#.*)?)");
const std::regex kNoSlots(R"(\s(?:max[-_])?(?:slots|count|cpu)\s*=\s*(?!0*[1-9][0-9]*(?:\s|$))\S+)");

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
  const auto j = nlohmann::json::parse(read_text(path, {"--profiles"}), nullptr, false);
  HostProfile profile{.file = path};
  PlannedHost& host = profile.host;
  host.name = std::filesystem::path(path).stem();
  try {
    const auto& machine = j.at("machine");
    if (!j.contains("model"))
      throw ModelError(fmt::format("{} is of a machine without a model; add one: yamata profile -m FILE.gguf --json ...", path));
    host.threads = j.at("model").at("threads");
    host.free_bytes = machine.value("available_bytes", host.free_bytes);
    std::vector<simulation::WidthTime> widths;
    for (const auto& run : j.at("widths")) widths.push_back({run.at("width"), run.at("time_s")});
    std::ranges::sort(widths, {}, &simulation::WidthTime::rows);
    const std::vector<double> times = times_by_width(widths);
    const double bytes = profile.weight_bytes = j.at("model").at("weight_bytes");
    if (times.empty() || !(times[0] > 0) || !(bytes > 0)) throw ModelError(fmt::format("{} has no times of any width", path));
    host.ns_per_byte = 1e9 * times[0] / bytes;
    if (times.size() > 1) host.width = simulation::WidthCost(times);
  } catch (const nlohmann::json::exception&) {
    throw ModelError(fmt::format("{} is no profile; 'yamata profile -m FILE.gguf --json FILE' writes one", path));
  }
  return profile;
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
