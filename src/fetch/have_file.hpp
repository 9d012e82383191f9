#pragma once
// The side file of a cached model: which of its chunks are there, with a checksum of each. Processes of one machine share it.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "node/file_descriptor.hpp"
#include "src/fetch/chunk_map.hpp"

namespace yamata::fetch {

/// Format: "YAMHAVE1", the bytes of the description that follows, the description (fingerprint, and of each file its name, bytes, header
/// bytes and a checksum of the header), a checksum of all that, and a checksum per chunk: 0 if the chunk is absent. Little-endian.
///
/// Locks of two kinds, which end with the process: each process that uses the model shares one, so that nobody removes it; one at a time
/// writes.
class HaveFile {
 public:
  /// Opens or makes `folder`/have, and shares the use of the model. Throws ModelError with the cause if the folder cannot be written.
  HaveFile(std::string folder, const ModelShape& shape);

  /// Takes the right to write, unless another process has it. Then checksums() is what the file says; if that file is damaged or of other
  /// files or another version, it is written anew, and no chunk counts as present.
  bool try_lock();
  void unlock();
  /// Per chunk; 0: absent.
  const std::vector<std::uint64_t>& checksums() const { return checksums_; }
  /// Marks a chunk, whose data is on the disk; 0: absent. With the right to write. Throws ModelError.
  void mark(std::uint64_t chunk, std::uint64_t checksum);
  /// Grows when another process has marked something: while this one waits for the right to write.
  std::int64_t changed_ns() const;

 private:
  bool try_open(const std::string& path);
  bool read();
  void renew();

  std::string path_;
  std::vector<std::byte> description_;
  FileDescriptor file_;
  std::vector<std::uint64_t> checksums_;
};

/// What a `have` file says without knowledge of its model; nothing if it is damaged.
struct HaveContent {
  ModelShape shape;  ///< without its name; the headers are zeros
  std::vector<std::uint64_t> checksums;
};
std::optional<HaveContent> parse_have(std::span<const std::byte> bytes);
std::optional<HaveContent> read_have(const std::string& path);

/// Opens a `have` file with the sole use of its model: no process uses it, until the result is closed. None: one does, or there is no file.
FileDescriptor try_own_have(const std::string& path);

}  // namespace yamata::fetch
