#pragma once
// --suffix-store: texts of earlier runs, kept in a file.
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "src/speculation/suffix_source.hpp"
#include "src/speculation/suffix_store.hpp"

namespace yamata {

/// Throws ModelError if there is something at `path` that cannot be a store, such as a folder. An empty `path` is no store.
void check_store(const std::string& path);

/// Several jobs may use one file at the same time: each reads all of it at the start and adds its texts to the file's content at the end.
class SuffixFile {
 public:
  /// An empty `path`: nothing is read or written. `vocabulary`: the text of every token.
  SuffixFile(std::string path, std::span<const std::string> vocabulary)
      : path_(std::move(path)), vocabulary_(hash_vocabulary(vocabulary)), tokens_(static_cast<std::int32_t>(vocabulary.size())) {}

  /// Adds the file's texts to `memory`. A damaged file is reported by a line on stderr and then replaced. Throws ModelError if the file is
  /// something else or cannot be read, UsageError if it belongs to another vocabulary.
  void read(SuffixMemory& memory) const;
  /// Adds the job's texts to the file, in one step or not at all; the oldest texts are removed if there are too many. Throws ModelError.
  void add(const SuffixMemory& memory) const;

 private:
  std::optional<SuffixStore> store() const;

  std::string path_;
  std::uint64_t vocabulary_;
  std::int32_t tokens_;
};

}  // namespace yamata
