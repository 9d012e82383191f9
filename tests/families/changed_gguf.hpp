#pragma once
// GGUF files with a changed tensor.
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "src/gguf/gguf.hpp"
#include "src/gguf/writer.hpp"

namespace yamata::families_test {

/// Writes a copy of `file` to `path`. `change` may rename or reshape a tensor, which then has the first of its bytes; if it returns false,
/// the tensor is omitted.
inline void write_changed(const gguf::File& file, const std::string& path, const std::function<bool(gguf::Tensor& tensor)>& change) {
  std::ofstream out(path, std::ios::binary);
  gguf::Writer writer([&](std::span<const std::byte> bytes) {
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  });
  for (const gguf::RawPair& pair : file.raw_metadata()) writer.set_raw(pair.key, pair.value);
  std::vector<gguf::Tensor> kept;
  for (gguf::Tensor tensor : file.tensors()) {
    if (!change(tensor)) continue;
    const TypeTraits& t = traits(tensor.type);
    tensor.bytes = static_cast<std::size_t>(tensor.rows() * tensor.cols()) / t.block_elements * t.block_bytes;
    kept.push_back(std::move(tensor));
  }
  for (const gguf::Tensor& tensor : kept) writer.add_tensor(tensor.name, tensor.type, tensor.shape);
  writer.begin();
  for (const gguf::Tensor& tensor : kept) writer.data({tensor.data, tensor.bytes});
}

}  // namespace yamata::families_test
