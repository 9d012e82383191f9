#pragma once
// Result files that are either complete or do not exist.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "launch/program/output/output_kind.hpp"

namespace yamata {

/// When a named pipe that no process reads is given up.
using PipeDeadline = std::chrono::steady_clock::time_point;
constexpr PipeDeadline kNoDeadline = PipeDeadline::max();

/// A file that is being written. finish() puts it at its path in one step; until then an older file stays there, and without finish()
/// nothing is left. If the file system supports it, the file has no name before, so that even a killed process leaves nothing. Files in
/// /dev are written directly. Throws ModelError naming the file and the cause, and Interrupted if a named pipe had no reader until then.
class NewFile {
 public:
  explicit NewFile(const std::string& path, PipeDeadline deadline = kNoDeadline);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  void append(std::span<const std::byte> bytes);
  void finish();

 private:
  std::string path_, temporary_;  // equal for paths in /dev
  bool nameless_ = false;
  std::FILE* file_ = nullptr;
};

/// Writes `text` to a temporary file and renames it to `path`, so that an older file is never left half overwritten. Throws ModelError
/// naming the file and the cause (a full disk, a missing folder).
void write_file(const std::string& path, const std::string& text, PipeDeadline deadline = kNoDeadline);
/// A result: its path (empty: do not write it), and its content; or, instead of a content, a function that writes the file itself.
struct Output {
  std::string path;
  std::function<std::string()> text;
  std::function<void()> write{};
};
/// Writes all outputs, even if some fail. All errors but the last are printed as lines on stderr; the last one is thrown, as by write_file.
/// Throws Interrupted if a named pipe had no reader until then.
void write_outputs(const std::vector<Output>& outputs, PipeDeadline deadline = kNoDeadline);
/// Where a result will be written, and which older file it may replace.
struct PlannedOutput {
  std::string path;
  OutputKind kind;
};
/// Throws like check_writable if one of the outputs cannot be written, equals another of them, or belongs to one of `kept`. Empty paths are
/// ignored.
void check_outputs(const std::vector<PlannedOutput>& outputs, const std::vector<std::string>& kept);
/// Throws ModelError if write_file would fail later, so that the error comes before the long work. Throws UsageError if the output would
/// overwrite one of `kept`, heads in one that is a folder, another part of one that is a split model, or a file of another kind. From then
/// on, standard output that nobody reads any more does not end the program, but is an error at its end.
void check_writable(const PlannedOutput& output, const std::vector<std::string>& kept);

}  // namespace yamata
