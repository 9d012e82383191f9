#include "src/draft_heads/kind.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace yamata::draft_heads {
namespace {

constexpr std::array<std::pair<Kind, const char*>, 5> kKinds{
    {{Kind::kMedusa, "medusa"}, {Kind::kEagle, "eagle"}, {Kind::kDgf, "dgf"}, {Kind::kEagle3, "eagle3"}, {Kind::kNextn, "nextn"}}};

}  // namespace

const char* kind_name(Kind kind) { return kKinds.at(static_cast<std::size_t>(kind)).second; }

std::optional<Kind> find_kind(const std::string& name) {
  for (const auto& [kind, known] : kKinds) {
    if (name == known) return kind;
  }
  return std::nullopt;
}

}  // namespace yamata::draft_heads
