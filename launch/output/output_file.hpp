#pragma once
// Result files that are either whole or not there.
#include <cstddef>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace yamata {

/// A file in the making. finish() puts it in its place at once, where an older one stays until then; without finish() nothing is left
/// behind. Where the file system allows it the file has no name before, so that not even a killed process leaves one. What lies in
/// /dev is written directly. Throws ModelError naming the file and the cause.
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  void append(std::span<const std::byte> bytes);
  void finish();

 private:
  std::string path_, temporary_;  // they are equal in /dev
  bool nameless_ = false;
  std::FILE* file_ = nullptr;
};

/// Writes `text` beside `path` and renames it into place, so that an older file is never left half overwritten.
/// Throws ModelError naming the file and the cause (a full disk, a missing folder).
void write_file(const std::string& path, const std::string& text);
/// A result: where it goes, an empty path being nowhere, and what it is.
struct Output {
  std::string path;
  std::function<std::string()> text;
};
/// Writes each, whatever becomes of the others. Of those that cannot be written, all but the last are told in a line on stderr; the last
/// is thrown as write_file throws it.
void write_outputs(const std::vector<Output>& outputs);
/// Throws as check_writable does where one of `paths` (empty ones left out) cannot be written, or is another of them or of `kept`.
void check_outputs(const std::vector<std::string>& paths, std::vector<std::string> kept);
/// Throws ModelError now where write_file could not work later: said before long work rather than after it.
/// Throws UsageError where that would overwrite one of `kept`.
void check_writable(const std::string& path, const std::vector<std::string>& kept);
/// The bytes of a file, or of standard input for "-". Throws ModelError where it cannot be read.
std::string read_text(const std::string& path, const std::string& flag = "-f");

}  // namespace yamata
