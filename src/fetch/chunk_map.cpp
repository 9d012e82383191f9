#include "src/fetch/chunk_map.hpp"

#include <algorithm>
#include <set>

#include "node/error.hpp"

namespace yamata::fetch {

void validate(const ModelShape& shape) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 44;  // of all files; their chunks are counted in memory
  constexpr std::size_t kMostParts = 99999, kLongestName = 200;
  std::set<std::string> names;
  std::uint64_t all = 0;
  bool valid = !shape.parts.empty() && shape.parts.size() <= kMostParts;
  for (const PartShape& part : shape.parts) {
    valid = valid && part.bytes > 0 && part.bytes <= kMostBytes - all && part.header.size() <= part.bytes && names.insert(part.name).second;
    all += valid ? part.bytes : 0;
    valid = valid && !part.name.empty() && part.name.size() <= kLongestName && part.name != "have" && part.name.front() != '.' &&
            std::ranges::none_of(part.name, [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20; });
  }
  if (!valid) throw ClusterError("rank 0 has described a model's files that cannot exist; do all ranks run the same yamata?");
}

ChunkMap::ChunkMap(const ModelShape& shape) {
  first_.push_back(0);
  for (const PartShape& part : shape.parts) {
    data_.push_back({part.header.size(), part.bytes});
    first_.push_back(first_.back() + (part.bytes - part.header.size() + kChunkBytes - 1) / kChunkBytes);
  }
}

ChunkPlace ChunkMap::place(std::uint64_t number) const {
  const auto part = static_cast<std::size_t>(std::ranges::upper_bound(first_, number) - first_.begin()) - 1;
  const std::uint64_t begin = data_[part].begin + (number - first_[part]) * kChunkBytes;
  return {part, begin, std::min(kChunkBytes, data_[part].end - begin)};
}

ChunkMap::Range ChunkMap::range(std::size_t part, std::uint64_t begin, std::uint64_t bytes) const {
  const std::uint64_t from = begin - data_[part].begin;
  if (bytes == 0) return {first_[part], first_[part]};
  return {first_[part] + from / kChunkBytes, first_[part] + (from + bytes - 1) / kChunkBytes + 1};
}

}  // namespace yamata::fetch
