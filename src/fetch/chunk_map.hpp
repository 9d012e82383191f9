#pragma once
// A model's files as numbered chunks, of which a rank that has no copy fetches those that it needs.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace yamata::fetch {

/// Bytes of a chunk; the last one of a file may have fewer.
inline constexpr std::uint64_t kChunkBytes = 1u << 20;

/// A file of a model.
struct PartShape {
  std::string name;                 ///< its name in the cache, without a folder
  std::uint64_t bytes = 0;          ///< of the whole file
  std::vector<std::byte> header{};  ///< its first bytes, which are not in any chunk: GGUF's header, metadata and tensor table
};

/// The files of a model on rank 0, without their data.
struct ModelShape {
  std::uint64_t fingerprint = 0;
  std::string name;  ///< for users
  std::vector<PartShape> parts;
};

/// Throws ClusterError if there are no such files: a header longer than its file, a name with a folder in it, sizes that do not exist.
void validate(const ModelShape& shape);

/// Where a chunk is.
struct ChunkPlace {
  std::size_t part = 0;
  std::uint64_t begin = 0, bytes = 0;  ///< in the file
};

/// Numbers the chunks of all files of a model, in order. The first chunk of a file begins behind its header.
class ChunkMap {
 public:
  explicit ChunkMap(const ModelShape& shape);
  std::uint64_t count() const { return first_.back(); }
  /// Of chunk `number`, which is below count().
  ChunkPlace place(std::uint64_t number) const;
  /// Half-open: the chunks that these bytes of a file are in. None of the bytes are in the header.
  struct Range {
    std::uint64_t begin = 0, end = 0;
  };
  Range range(std::size_t part, std::uint64_t begin, std::uint64_t bytes) const;

 private:
  struct Extent {
    std::uint64_t begin, end;  // of the data in the file
  };
  std::vector<Extent> data_;          // per part
  std::vector<std::uint64_t> first_;  // the number of each part's first chunk, and the number of all
};

}  // namespace yamata::fetch
