#pragma once
// Mapped files that lose their pages: truncated while they are in use, or on a disk or a server that fails.
#include <cstddef>
#include <span>
#include <string>

#include "node/error.hpp"

namespace yamata {

struct LostPages : ModelError {
  using ModelError::ModelError;
};

/// During its lifetime, lost pages of this mapping are detected and reported with the file's name.
class WatchedMapping {
 public:
  /// `bytes` begin at a page boundary. Only some thousand mappings at a time can be watched; others are ignored.
  WatchedMapping(std::span<const std::byte> bytes, const std::string& path);
  ~WatchedMapping();
  WatchedMapping(const WatchedMapping&) = delete;
  WatchedMapping& operator=(const WatchedMapping&) = delete;

 private:
  const std::string path_;
  std::size_t slot_;
};

/// From now on, reading a lost page of a watched mapping does not kill the process with SIGBUS. Instead the whole mapping reads as zeros,
/// and require_pages() throws. Lost pages of other memory still kill the process.
void survive_lost_pages();

/// Call this before using anything that was read or computed from mapped files. Throws LostPages, which names the file, if a watched
/// mapping has lost a page. Costs almost nothing.
void require_pages();
/// The same after touching all pages of `bytes`, for use after a failed system call, which raises no signal.
void require_pages(std::span<const std::byte> bytes);

}  // namespace yamata
