#include "launch/program/output/warnings.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "launch/program/output/standard_output.hpp"

namespace yamata {
namespace {

/// Nothing: warnings are shown.
std::optional<std::vector<std::string>> g_kept{std::in_place};

}  // namespace

void warn(const std::string& text) {
  if (g_kept) return g_kept->push_back(text);
  print_error("yamata: warning: {}\n", text);
}

void show_warnings() {
  for (const std::string& text : std::exchange(g_kept, std::nullopt).value_or(std::vector<std::string>{})) warn(text);
}

}  // namespace yamata
