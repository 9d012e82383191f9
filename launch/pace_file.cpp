#include "launch/pace_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launch/output_file.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr const char* kFirstWord = "yamata-pace-1";
constexpr std::int64_t kDay = 24 * 60 * 60;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::string PaceKey::file_name() const {
  std::string name = fmt::format("{}-{:016x}-{}-{}t-{}of{}.pace", host, fingerprint, isa, threads, local_rank, local_size);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '.'; }, '_');
  return name;
}

std::string pace_folder() {
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) return cache + "/yamata";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/yamata";
}

std::optional<double> read_pace(const std::string& folder, const PaceKey& key, std::int64_t now_s) {
  std::ifstream in(std::filesystem::path(folder) / key.file_name());
  std::string word, rest;
  double ns_per_byte = 0;
  std::int64_t written_s = 0;
  if (!(in >> word >> ns_per_byte >> written_s) || word != kFirstWord || in >> rest) return std::nullopt;
  if (!std::isfinite(ns_per_byte) || ns_per_byte <= 0 || written_s > now_s || written_s <= now_s - kDay) return std::nullopt;
  return ns_per_byte;
}

void keep_pace(const std::string& folder, const PaceKey& key, double ns_per_byte, std::int64_t now_s) {
  if (folder.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  try {
    write_file((std::filesystem::path(folder) / key.file_name()).string(), fmt::format("{} {} {}\n", kFirstWord, ns_per_byte, now_s));
  } catch (const Error&) {  // the next run measures again
  }
}

}  // namespace yamata
