#pragma once
// --suffix-store: outputs of earlier runs, kept in a file.
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "src/speculation/suffix_source.hpp"
#include "src/speculation/suffix_store.hpp"

namespace yamata {

/// Several jobs may use one file at once: each reads it whole, and adds what it has written to what is there by then.
class SuffixFile {
 public:
  /// An empty `path`: there is none, and nothing is read or written. `vocabulary`: the text of every token.
  SuffixFile(std::string path, std::span<const std::string> vocabulary)
      : path_(std::move(path)), vocabulary_(hash_vocabulary(vocabulary)), tokens_(static_cast<std::int32_t>(vocabulary.size())) {}

  /// Puts what the file has into `memory`. A damaged file is told of in a line on stderr and begun anew. Throws ModelError where the file
  /// is something else or cannot be read, UsageError where it is of another vocabulary.
  void read(SuffixMemory& memory) const;
  /// Adds what the job has written, at once or not at all; the oldest texts go where there are too many. Throws ModelError.
  void add(const SuffixMemory& memory) const;

 private:
  std::optional<SuffixStore> store() const;

  std::string path_;
  std::uint64_t vocabulary_;
  std::int32_t tokens_;
};

}  // namespace yamata
