#pragma once
// --suffix-store and --datastore: texts of earlier runs or of a corpus, kept in a file.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/speculation/suffix_source.hpp"
#include "src/speculation/suffix_store.hpp"

namespace yamata {

/// Throws ModelError if there is something at `path` that cannot be a store, such as a folder. An empty `path` is no store. `flag` names
/// it.
void check_store(const std::string& path, const std::string& flag = "--suffix-store");

/// Several jobs may use one file at the same time: each reads all of it at the start and adds its texts to the file's content at the end.
class SuffixFile {
 public:
  /// An empty `path`: nothing is read or written. `vocabulary`: the text of every token; `flag`: names it in
  /// messages.
  SuffixFile(std::string path, std::span<const std::string> vocabulary, std::string flag = "--suffix-store")
      : path_(std::move(path)),
        flag_(std::move(flag)),
        vocabulary_(hash_vocabulary(vocabulary)),
        tokens_(static_cast<std::int32_t>(vocabulary.size())) {}

  /// Adds the file's texts to `memory`. A damaged file is reported by a line on stderr and then replaced. Throws ModelError if the file is
  /// something else or cannot be read, UsageError if it belongs to another vocabulary.
  void read(SuffixMemory& memory) const;
  /// The same for a file that must be there, undamaged; else throws ModelError.
  void read_datastore(SuffixMemory& memory) const;
  /// What a file has.
  struct Size {
    std::size_t texts = 0, tokens = 0;
  };
  /// Adds texts, such as a corpus, in one step or not at all: the file may become as large as a datastore, and then keeps that size.
  /// Returns what it has then. Throws ModelError, and UsageError if it would be too large, or is damaged.
  Size add(std::span<const std::vector<std::int32_t>> texts) const;
  /// Adds the job's texts to the file, in one step or not at all; the oldest texts are removed if there are too many. Throws ModelError.
  void add(const SuffixMemory& memory) const;

 private:
  std::optional<SuffixStore> store() const;
  SuffixStore undamaged() const;

  std::string path_, flag_;
  std::uint64_t vocabulary_;
  std::int32_t tokens_;
};

/// The texts that a job guesses from, besides its own: those of `datastore`, a file's path, or of `store` if it is empty. Throws as they
/// do.
std::shared_ptr<SuffixMemory> read_suffixes(const SuffixFile& store, const std::string& datastore, std::span<const std::string> vocabulary);

}  // namespace yamata
