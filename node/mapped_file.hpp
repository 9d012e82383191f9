#pragma once
// A file in memory, read-only.
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "node/lost_pages.hpp"

namespace yamata {

struct MappedFile {
  /// Maps the file. Throws ModelError if it cannot be opened, is empty, or is not a regular file.
  explicit MappedFile(const std::string& path);
  /// Refers to bytes that are owned elsewhere.
  explicit MappedFile(std::span<const std::byte> bytes) : bytes(bytes) {}
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Releases the pages touched so far, if a file is mapped.
  void release() const;

  std::span<const std::byte> bytes;

 private:
  void* mapped_ = nullptr;
  std::optional<WatchedMapping> watch_;
};

}  // namespace yamata
