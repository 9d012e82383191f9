#include "node/cuda/emulation/injected_faults.hpp"

#include <map>
#include <tuple>

namespace yamata::simt::injected {
namespace {

using Place = std::tuple<std::string, unsigned, unsigned>;
bool g_recording = false;
std::map<Place, std::string> g_sites;
std::string g_removed;

std::string name_of(const std::source_location& where) {
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
  g_recording = on;
  g_active = g_recording || !g_removed.empty();
}

void remove(const std::string& site) {
  g_removed = site;
  g_active = g_recording || !g_removed.empty();
}

bool is_removed(const std::source_location& where) {
  if (g_recording) g_sites.try_emplace({where.file_name(), where.line(), where.column()}, name_of(where));
  return !g_removed.empty() && name_of(where) == g_removed;
}

}  // namespace yamata::simt::injected
