#pragma once
// A file in memory, read-only.
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "node/lost_pages.hpp"
#include "src/gguf/gguf.hpp"

namespace yamata::gguf {

struct File::Mapping {
  /// Maps the file. Throws ModelError where it cannot be opened, is empty or no regular file.
  explicit Mapping(const std::string& path);
  /// Refers to bytes that live elsewhere.
  explicit Mapping(std::span<const std::byte> bytes) : bytes(bytes) {}
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// Lets go of the pages touched so far, where a file is mapped.
  void release() const;

  std::span<const std::byte> bytes;
  std::uint64_t header_bytes = 0;  ///< header, metadata and tensor table

 private:
  void* mapped_ = nullptr;
  std::optional<WatchedMapping> watch_;
};

}  // namespace yamata::gguf
