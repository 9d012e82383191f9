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

/// While it lives, a lost page of this mapping of a file is known by the file's name.
class WatchedMapping {
 public:
  /// `bytes` begin with a page. Beyond some thousand mappings at once, further ones are not watched.
  WatchedMapping(std::span<const std::byte> bytes, const std::string& path);
  ~WatchedMapping();
  WatchedMapping(const WatchedMapping&) = delete;
  WatchedMapping& operator=(const WatchedMapping&) = delete;

 private:
  const std::string path_;
  std::size_t slot_;
};

/// From now on reading a lost page of a watched mapping does not end the process by SIGBUS: the whole mapping reads as zeros, and
/// require_pages() throws. Lost pages of other memory end it as before.
void survive_lost_pages();

/// To be called before what was read or computed from mapped files counts. Throws LostPages, which names the file, where a watched
/// mapping has lost a page. Costs next to nothing.
void require_pages();
/// The same after touching all pages of `bytes`: where a system call could not read them, which raises no signal.
void require_pages(std::span<const std::byte> bytes);

}  // namespace yamata
