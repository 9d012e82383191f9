#pragma once
// The memory mapping of a GGUF file.
#include <cstdint>

#include "node/mapped_file.hpp"
#include "src/gguf/gguf.hpp"

namespace yamata::gguf {

struct File::Mapping : MappedFile {
  using MappedFile::MappedFile;
  std::uint64_t header_bytes = 0;       ///< header, metadata and tensor table
  std::span<const std::byte> header{};  ///< them, if they are not in the file
  std::span<const std::byte> readable() const { return header.empty() ? bytes : header; }
};

}  // namespace yamata::gguf
