#include "src/model/packing.hpp"

#include <fmt/format.h>

#include <new>

#include "node/error.hpp"
#include "node/limits.hpp"

namespace yamata {

std::unique_ptr<Buffer> set_aside_packed(ComputeUnit& unit, std::span<Matrix* const> matrices, std::vector<Op>& ops,
                                         const std::string& what, const std::string& remedy, BufferUse use) {
  constexpr std::size_t kAlignment = 64;
  std::vector<std::size_t> at;
  std::size_t bytes = 0;
  for (const Matrix* matrix : matrices) {
    at.push_back(bytes);
    bytes += (unit.packed_bytes(*matrix) + kAlignment - 1) / kAlignment * kAlignment;
  }
  std::unique_ptr<Buffer> packed;
  try {
    packed = unit.allocate(bytes, use);
  } catch (const std::bad_alloc&) {
    throw ModelError(
        fmt::format("no memory for {} MiB of {} on {}; {}{}", bytes >> 20, what, unit.device(), remedy, or_raise_memory_limit()));
  }
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    if (unit.packed_bytes(*matrices[i]) == 0) continue;
    std::byte* to = packed->host().data() + at[i];
    matrices[i]->packed = to;
    ops.push_back(PackOp{matrices[i], to});
  }
  return packed;
}

}  // namespace yamata
