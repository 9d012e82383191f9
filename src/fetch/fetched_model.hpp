#pragma once
// A model whose files are on rank 0 only: this rank's copy, with holes where nothing has been fetched yet.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "node/file_descriptor.hpp"
#include "src/fetch/chunk_map.hpp"
#include "src/fetch/have_file.hpp"
#include "src/gguf/gguf.hpp"

namespace yamata::fetch {

/// A chunk counts as present after this process has read it from the copy and found its checksum right, or has written it. Not thread-safe,
/// except has().
class FetchedModel final : public gguf::Presence {
 public:
  /// The copy in `folder`/FINGERPRINT, which is made if there is none. Throws ModelError, with the remedy, if it cannot be written.
  static std::shared_ptr<FetchedModel> in_folder(const std::string& folder, ModelShape shape);
  /// In memory only, until the end of this object and of the files that are mapped from it.
  static std::shared_ptr<FetchedModel> in_memory(ModelShape shape);

  const ModelShape& shape() const { return shape_; }
  const ChunkMap& map() const { return map_; }
  /// The GGUF file, mapped; it shares this object. `name`: for messages.
  static gguf::File open(const std::shared_ptr<FetchedModel>& model, const std::string& name);
  /// The path of a part's copy.
  std::string path(std::size_t part) const;
  /// The chunks that these bytes of a file that open() has mapped are in.
  ChunkMap::Range chunks_of(const gguf::File& file, std::span<const std::byte> bytes) const;

  bool has(std::span<const std::byte> bytes) const override;
  std::uint64_t fingerprint() const override { return shape_.fingerprint; }
  bool is_present(std::uint64_t chunk) const { return present_[chunk]; }

  // One process of a machine at a time writes: the rest is for it.
  /// Takes the right to write, unless another process has it.
  bool try_lock() { return !have_ || have_->try_lock(); }
  void unlock();
  /// Changes when the process that has the right to write has fetched something.
  std::int64_t changed_ns() const { return have_ ? have_->changed_ns() : 0; }
  /// Reads a chunk that the side file lists, and compares its checksum. False: it must be fetched.
  bool verify(std::uint64_t chunk);
  /// Allocates disk space for these chunks, so that no later write fails. Removes models that were not used for longest, if they are in the
  /// way. Throws ModelError with the bytes that are needed and free.
  void allocate(std::span<const std::uint64_t> chunks);
  /// Writes a chunk whose checksum was right on its way. It is marked once it is on the disk. Throws ModelError.
  void put(std::uint64_t chunk, std::span<const std::byte> bytes, std::uint64_t checksum);
  /// Marks all that was written.
  void flush();

 private:
  FetchedModel(std::string folder, ModelShape shape);
  void open_parts();
  bool read(const ChunkPlace& place, std::span<std::byte> to) const;
  [[noreturn]] void fail(int error) const;

  const std::string folder_;  // of this model; empty: in memory
  const ModelShape shape_;
  const ChunkMap map_;
  std::optional<HaveFile> have_;
  std::vector<FileDescriptor> parts_;
  std::vector<bool> present_;
  std::map<std::uint64_t, std::uint64_t> unmarked_;  // chunks that are written but perhaps not on the disk, with their checksums
  std::vector<std::span<const std::byte>> mapped_;   // per part
};

}  // namespace yamata::fetch
