#include "launch/commands/profile_options.hpp"

#include <fmt/format.h>

#include "launch/flag_groups.hpp"
#include "launch/flag_values.hpp"
#include "launch/unit_flags.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

int number(const cxxopts::ParseResult& r, const char* name, const char* flag, int least, int most) {
  const int value = r[name].as<int>();
  if (value < least || value > most) throw UsageError(fmt::format("{} must be between {} and {}", flag, least, most));
  return value;
}

}  // namespace

cxxopts::Options profile_flags() {
  auto flags = describe("profile", "What this machine can do at most, and with -m how near to it a model comes. One process, no mpirun.");
  const auto text = [](const char* fallback) { return cxxopts::value<std::string>()->default_value(fallback); };
  const auto integer = [](const char* fallback) { return cxxopts::value<int>()->default_value(fallback); };
  auto add = flags.add_options("Profile (lists: 512,1024 or 1-16, 1-9+4, 128-8192*2)");
  add("t,threads", "Most compute threads (0: all cores)", integer("0"), "N");
  add("r,rounds", "Rounds in which everything is measured once", integer("5"), "N");
  add("memory-mib", "Memory that bandwidth is measured on (0: several times the caches)", integer("0"), "MIB");
  add("widths", "With -m: runs of this many tokens", text("1,2,4,8,16,32,64"), "LIST");
  add("contexts", "With -m: one token behind this many, as far as the model goes", text("128-8192*2"), "LIST");
  add("cache-type-k", "-ctk, storage of keys: f16, f32 or q8_0", text("f16"), "TYPE");
  add("cache-type-v", "-ctv, storage of values", text("f16"), "TYPE");
  add("no-repack", "Keep the weights as they lie in the file");
  add("units", "With -m: only measure how groups of cores best share its layers, as in cpu:0-3+cpu:4-7, and keep it for runs with the same",
      text("auto"), "UNITS");
  add("json", "Write the profile to this file", cxxopts::value<std::string>(), "FILE");
  add_numa(flags, "Machine");
  return flags;
}

ProfileOptions read_profile(const cxxopts::ParseResult& r) {
  ProfileOptions o;
  o.model = text_of(r, "model");
  o.numa = read_numa(r);
  o.repack = !given(r, "no-repack");
  o.json_file = text_of(r, "json");
  o.units = parse_units(r["units"].as<std::string>());
  if (!o.units.empty() && o.model.empty()) throw UsageError("--units is measured with a model; name one with -m FILE.gguf");
  if (given(r, "threads")) require_idle_threads(o.units);
  o.threads = number(r, "threads", "-t", 0, 1024);
  o.rounds = number(r, "rounds", "-r", 1, 1000);
  o.memory_mib = number(r, "memory-mib", "--memory-mib", 0, 1 << 20);
  o.widths = parse_counts("--widths", joined(r, "widths"), 1, 1024);
  o.contexts = parse_counts("--contexts", joined(r, "contexts"), 1, 1 << 20);
  o.contexts_given = r.count("contexts") > 0;
  o.cache_types = {parse_cache_type(r["cache-type-k"].as<std::string>(), "-ctk"),
                   parse_cache_type(r["cache-type-v"].as<std::string>(), "-ctv")};
  return o;
}

}  // namespace yamata
