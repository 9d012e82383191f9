#include "launch/planning/measurement_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launch/output/output_file.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr std::int64_t kDay = 24 * 60 * 60;

/// A kind of measurement: the file's extension, and its first word.
struct Kind {
  const char *extension, *first_word;
};
constexpr Kind kSpeed{".speed", "yamata-speed-1"}, kThreads{".threads", "yamata-threads-1"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::filesystem::path path_of(const std::string& folder, const MeasurementKey& key, Kind kind) {
  return std::filesystem::path(folder) / key.file_name(kind.extension);
}

struct KeptNumber {
  double number = 0;
  std::int64_t written_s = 0;
};

std::optional<KeptNumber> read_number(const std::filesystem::path& path, Kind kind, std::int64_t now_s) {
  std::ifstream in(path);
  std::string word, rest;
  KeptNumber kept;
  if (!(in >> word >> kept.number >> kept.written_s) || word != kind.first_word || in >> rest) return std::nullopt;
  if (!std::isfinite(kept.number) || kept.number <= 0 || kept.written_s > now_s || kept.written_s <= now_s - kDay) return std::nullopt;
  return kept;
}

void keep_number(const std::string& folder, const MeasurementKey& key, Kind kind, double number, std::int64_t now_s) {
  if (folder.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  try {
    write_file(path_of(folder, key, kind).string(), fmt::format("{} {} {}\n", kind.first_word, number, now_s));
  } catch (const Error&) {  // the next run measures again
  }
}

}  // namespace

std::string MeasurementKey::file_name(const char* extension) const {
  std::string name = fmt::format("{}-{:016x}-{}-{}t-{}of{}-{}{}{}", host, fingerprint, isa, threads, local_rank, local_size,
                                 kNumaNames.at(static_cast<std::size_t>(numa)), units.empty() ? "" : "-" + units, extension);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '.'; }, '_');
  return name;
}

std::string measurement_folder() {
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) return cache + "/yamata";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/yamata";
}

std::optional<double> read_ns_per_byte(const std::string& folder, const MeasurementKey& key, std::int64_t now_s) {
  const auto kept = read_number(path_of(folder, key, kSpeed), kSpeed, now_s);
  return kept ? std::optional(kept->number) : std::nullopt;
}

void keep_ns_per_byte(const std::string& folder, const MeasurementKey& key, double ns_per_byte, std::int64_t now_s) {
  keep_number(folder, key, kSpeed, ns_per_byte, now_s);
}

std::optional<KeptThreads> read_thread_choice(const std::string& folder, const MeasurementKey& key, std::int64_t now_s) {
  const auto kept = read_number(path_of(folder, key, kThreads), kThreads, now_s);
  if (!kept || kept->number != std::floor(kept->number) || kept->number > 1024) return std::nullopt;
  return KeptThreads{static_cast<int>(kept->number), kept->written_s};
}

void keep_thread_choice(const std::string& folder, const MeasurementKey& key, int threads, std::int64_t now_s) {
  keep_number(folder, key, kThreads, threads, now_s);
}

}  // namespace yamata
