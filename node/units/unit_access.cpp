#include "node/units/unit_access.hpp"

#include <algorithm>

namespace yamata {

UnitAccess UnitAccess::columns(const float* base, std::int64_t rows, std::int64_t stride, std::int64_t width, const Cut& cut, bool writes) {
  const auto* begin = reinterpret_cast<const std::byte*>(base);
  const std::int64_t floats = rows > 0 ? (rows - 1) * stride + width : 0;
  return {begin, begin + static_cast<std::size_t>(floats) * sizeof(float), stride, cut, writes};
}

UnitAccess UnitAccess::token_rows(const float* base, std::int64_t width, const Cut& cut, bool writes) {
  const auto* begin = reinterpret_cast<const std::byte*>(base);
  return {begin, begin + static_cast<std::size_t>(*std::ranges::max_element(cut.at) * width) * sizeof(float), -1, cut, writes};
}

UnitAccess UnitAccess::cells(void* const* planes, std::int64_t kv_heads, const Cut& heads, bool writes) {
  const auto* begin = reinterpret_cast<const std::byte*>(planes);
  return {begin, begin + static_cast<std::size_t>(kv_heads) * sizeof(void*), 1, heads, writes};
}

UnitAccess UnitAccess::whole(const void* base, std::size_t bytes, bool writes) {
  const auto* begin = static_cast<const std::byte*>(base);
  return {begin, begin + bytes, 0, {}, writes};
}

bool UnitAccesses::conflicts(const UnitAccess& access) const {
  return std::ranges::any_of(accesses_, [&](const UnitAccess& before) {
    return (access.writes || before.writes) && access.touches(before) && !access.same_parts(before);
  });
}

bool UnitAccesses::conflicts(std::span<const UnitAccess> accesses) const {
  return std::ranges::any_of(accesses, [&](const UnitAccess& access) { return conflicts(access); });
}

}  // namespace yamata
