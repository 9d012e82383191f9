#include "launch/output/output_kind.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "launch/output/feature_files.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

struct Kind {
  const char* name;  ///< "FILE exists and is not NAME"
  /// `begin`: the first bytes of the file.
  bool (*matches)(const std::string& path, std::string_view begin);
};

/// Text: a safetensors file may also begin with such a byte.
bool is_json(const std::string& /*path*/, std::string_view begin) {
  return (begin.starts_with('{') || begin.starts_with('[')) && begin.find('\0') == std::string_view::npos;
}

/// The first columns are enough, so that a file of another version with other columns after them is replaced too.
bool is_run_csv(const std::string& /*path*/, std::string_view begin) { return begin.starts_with("strategy,lossless,finish_reason,"); }

bool is_simulation_csv(const std::string& /*path*/, std::string_view begin) { return begin.starts_with("ranks,group,strategy,"); }

bool is_gguf(const std::string& /*path*/, std::string_view begin) { return begin.starts_with("GGUF"); }

bool is_features(const std::string& path, std::string_view /*begin*/) { return holds_features(path); }

Kind description(OutputKind kind) {
  switch (kind) {
    case OutputKind::kJson:
      return {"JSON", is_json};
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
