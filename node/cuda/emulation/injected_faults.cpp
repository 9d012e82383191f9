#include "node/cuda/emulation/injected_faults.hpp"

#include <map>
#include <tuple>

namespace yamata::simt::injected {
namespace {

using Place = std::tuple<std::string, unsigned, unsigned>;
bool g_recording = false;
std::map<Place, std::string> g_sites;
Place g_removed;

std::string name_of(const Site& where) {
  return std::string(where.file_name()) + ':' + std::to_string(where.line()) + ':' + std::to_string(where.column());
}

}  // namespace

bool g_active = false;

std::vector<std::string> sites() {
  std::vector<std::string> all;
  for (const auto& [place, name] : g_sites) all.push_back(name);
  return all;
}

void record(bool on) {
  if (on) g_sites.clear();
  g_recording = on;
  g_active = g_recording || g_removed != Place{};
}

void remove(const std::string& site) {
  g_removed = {};
  if (!site.empty()) {
    const std::size_t column = site.rfind(':'), line = site.rfind(':', column - 1);
    g_removed = {site.substr(0, line), std::stoul(site.substr(line + 1)), std::stoul(site.substr(column + 1))};
  }
  g_active = g_recording || g_removed != Place{};
}

bool is_removed(const Site& where) {
  if (g_recording) g_sites.try_emplace({where.file_name(), where.line(), where.column()}, name_of(where));
  const auto& [file, line, column] = g_removed;
  return where.line() == line && where.column() == column && where.file_name() == file;
}

}  // namespace yamata::simt::injected
