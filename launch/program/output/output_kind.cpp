#include "launch/program/output/output_kind.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "launch/program/output/feature_files.hpp"
#include "launch/program/output/report.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

struct Kind {
  const char* name;  ///< "FILE exists and is not NAME"
  /// `begin`: the first bytes of the file.
  bool (*matches)(const std::string& path, std::string_view begin);
};

/// All commands write one object. The whole file is read, since notes in other formats may begin with the same byte.
bool is_json(const std::string& path, std::string_view begin) {
  const std::size_t first = begin.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || begin[first] != '{') return false;
  std::ifstream in(path, std::ios::binary);
  return nlohmann::json::accept(in);
}

/// A trace may be large, so that its beginning, which no other file has, must be enough.
bool is_trace(const std::string& /*path*/, std::string_view begin) { return begin.starts_with(kTraceBegins); }

/// The first columns are enough, so that a file of another version with other columns after them is replaced too.
bool is_run_csv(const std::string& /*path*/, std::string_view begin) { return begin.starts_with("strategy,lossless,finish_reason,"); }

bool is_simulation_csv(const std::string& /*path*/, std::string_view begin) { return begin.starts_with("ranks,group,strategy,"); }

bool is_gguf(const std::string& /*path*/, std::string_view begin) { return begin.starts_with("GGUF"); }

bool is_features(const std::string& path, std::string_view /*begin*/) { return holds_features(path); }

Kind description(OutputKind kind) {
  switch (kind) {
    case OutputKind::kJson:
      return {"a JSON object", is_json};
    case OutputKind::kTrace:
      return {"a trace", is_trace};
    case OutputKind::kRunCsv:
      return {"the CSV of a run", is_run_csv};
    case OutputKind::kSimulationCsv:
      return {"the CSV of a simulation", is_simulation_csv};
    case OutputKind::kGguf:
      return {"a GGUF file", is_gguf};
    case OutputKind::kFeatures:
      return {"a file of yamata features", is_features};
    case OutputKind::kSuffixStore:
      break;
  }
  return {"", [](const std::string&, std::string_view) { return true; }};
}

}  // namespace

void refuse_foreign(const std::string& path, OutputKind kind) {
  std::error_code unseen;
  if (!std::filesystem::is_regular_file(path, unseen) || std::filesystem::is_empty(path, unseen)) return;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (!file)
    throw UsageError(
        fmt::format("{} exists and cannot be read ({}), so it is not replaced; write to another file", path, std::strerror(errno)));
  std::array<char, 64> first;
  const std::size_t bytes = std::fread(first.data(), 1, first.size(), file);
  std::fclose(file);
  const Kind own = description(kind);
  if (bytes > 0 && !own.matches(path, {first.data(), bytes}))
    throw UsageError(fmt::format("{} exists and is not {}, so it is not replaced; write to another file", path, own.name));
}

}  // namespace yamata
