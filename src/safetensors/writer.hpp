#pragma once
// Writes safetensors files.
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace yamata::safetensors {

/// A tensor to be written; the number of bytes must match its type and shape.
struct Entry {
  std::string name, type;           ///< type: as the format names it, such as "F16"
  std::vector<std::int64_t> shape;  ///< slowest dimension first
  std::span<const std::byte> bytes;
};

/// Passes every byte of the file to `sink`, in order. Data begin at a multiple of 64 bytes.
void write(const std::vector<Entry>& entries, const std::map<std::string, std::string>& metadata,
           const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace yamata::safetensors
