#pragma once
// Files of heads with a changed tensor.
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "src/safetensors/safetensors.hpp"
#include "src/safetensors/writer.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::test {

class ChangedDraftHeads {
 public:
  explicit ChangedDraftHeads(const std::string& path) : file_(safetensors::File::open(path)) {}
  /// `change` may change an entry; if it returns false, the entry is omitted. The file exists until the next call or the end of this
  /// object.
  std::string write(const std::function<bool(safetensors::Entry& entry)>& change) {
    std::vector<safetensors::Entry> entries;
    for (const safetensors::Tensor& tensor : file_.tensors()) {
      safetensors::Entry entry{tensor.name, tensor.type_name, tensor.shape, tensor.bytes};
      if (change(entry)) entries.push_back(std::move(entry));
    }
    const std::string path = folder_ / "changed.safetensors";
    std::ofstream out(path, std::ios::binary);
    safetensors::write(entries, file_.metadata(), [&](std::span<const std::byte> bytes) {
      out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    });
    return path;
  }
  /// Writes the file with only the first half of a tensor's rows.
  std::string halve(const std::string& name) {
    return write([&](safetensors::Entry& entry) {
      if (entry.name != name) return true;
      entry.shape.front() /= 2;
      entry.bytes = entry.bytes.first(entry.bytes.size() / 2);
      return true;
    });
  }
  const safetensors::File& file() const { return file_; }

 private:
  safetensors::File file_;
  TemporaryFolder folder_;
};

}  // namespace yamata::test
