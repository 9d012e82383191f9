#include "launch/planning/host_profiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "launch/output/output_file.hpp"
#include "node/error.hpp"

namespace yamata {

std::vector<std::string> read_hostfile(const std::string& path) {
  std::istringstream lines(read_text(path, "--hostfile"));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    if (words >> name && name[0] != '#') names.push_back(name);
  }
  if (names.empty()) throw UsageError(fmt::format("--hostfile {}: it names no host; write one per line", path));
  return names;
}

PlannedHost read_profile(const std::string& path) {
  const auto j = nlohmann::json::parse(read_text(path, "--profiles"), nullptr, false);
  PlannedHost host;
  try {
    host.name = j.at("machine").at("host");
    if (!j.contains("model"))
      throw UsageError(fmt::format("{} is of a machine without a model; add one: yamata profile -m FILE.gguf --json ...", path));
    host.threads = j.at("model").at("threads");
    host.free_bytes = j.at("machine").value("available_bytes", host.free_bytes);
    std::vector<simulation::WidthTime> widths;
    for (const auto& run : j.at("widths")) widths.push_back({run.at("width"), run.at("time_s")});
    std::ranges::sort(widths, {}, &simulation::WidthTime::rows);
    const std::vector<double> times = times_by_width(widths);
    const double bytes = j.at("model").at("weight_bytes");
    if (times.empty() || !(times[0] > 0) || !(bytes > 0)) throw UsageError(fmt::format("{} has no times of any width", path));
    host.ns_per_byte = 1e9 * times[0] / bytes;
    if (times.size() > 1) host.width = simulation::WidthCost(times);
  } catch (const nlohmann::json::exception&) {
    throw UsageError(fmt::format("{} is no profile; 'yamata profile -m FILE.gguf --json FILE' writes one", path));
  }
  return host;
}

std::vector<PlannedHost> read_profiles(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  if (error) throw ModelError(fmt::format("--profiles {}: {}", folder, error.message()));
  if (paths.empty())
    throw UsageError(fmt::format("--profiles {}: no *.json in it; 'yamata profile -m FILE.gguf --json FILE' writes one", folder));
  std::ranges::sort(paths);
  std::vector<PlannedHost> hosts;
  for (const std::string& path : paths) hosts.push_back(read_profile(path));
  return hosts;
}

}  // namespace yamata
