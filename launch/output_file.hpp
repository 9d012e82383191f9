#pragma once
// Result files that are either whole or not there.
#include <string>
#include <vector>

namespace yamata {

/// Writes `text` beside `path` and renames it into place, so that an older file is never left half overwritten.
/// Throws ModelError naming the file and the cause (a full disk, a missing folder).
void write_file(const std::string& path, const std::string& text);
/// Throws ModelError now where write_file could not work later: said before long work rather than after it.
/// Throws UsageError where that would overwrite one of `kept`.
void check_writable(const std::string& path, const std::vector<std::string>& kept);
/// The bytes of a file, or of standard input for "-". Throws UsageError where it cannot be read.
std::string read_text(const std::string& path, const std::string& flag = "-f");

}  // namespace yamata
