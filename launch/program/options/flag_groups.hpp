#pragma once
// Flags that several commands share: each group is declared and read here.
#include <cxxopts.hpp>
#include <set>
#include <string>
#include <vector>

#include "launch/program/options/options.hpp"

namespace yamata {

/// The flags of a command, with --help.
cxxopts::Options new_flags(const std::string& command, const std::string& what);
/// The same with --model.
cxxopts::Options describe(const std::string& command, const std::string& what);
/// Whether a flag was given, rather than left at its default.
bool given(const cxxopts::ParseResult& result, const char* name);
/// A flag's text; empty if it was not given.
std::string text_of(const cxxopts::ParseResult& result, const char* name);
/// --model. Throws UsageError if there is none.
std::string read_model(const cxxopts::ParseResult& result);

void add_text(cxxopts::Options& flags);
/// Throws UsageError if both -p and -f are given.
TextSource read_text_source(const cxxopts::ParseResult& result);
/// --prompt-format, for formatted_prompt (prompt_list.hpp).
void add_prompt_format(cxxopts::Options& flags);
std::string read_prompt_format(const cxxopts::ParseResult& result);

void add_numa(cxxopts::Options& flags, const char* group);
Numa read_numa(const cxxopts::ParseResult& result);

/// What --layer-split auto does in commands that do not choose a layout.
inline constexpr char kBySpeed[] = "by measured speed";
/// The flags of every command that runs a model on several ranks. `auto_split`: what --layer-split auto does.
void add_ranks(cxxopts::Options& flags, const std::string& auto_split = kBySpeed);
void read_ranks(const cxxopts::ParseResult& result, JobOptions& job);

/// What -t says about the threads of each rank.
inline constexpr char kThreadsOfRanks[] =
    "Compute threads of each rank (0: as many as are fastest by measurement, at most its share of its machine's cores; measure: the same, "
    "but ignore a remembered choice)";
/// The same, with threads and batch of a command that has only one job.
void add_cluster(cxxopts::Options& flags, const std::string& auto_split = kBySpeed);
void read_cluster(const cxxopts::ParseResult& result, JobOptions& job);
/// -b, or what suits the job's units.
int read_batch(const cxxopts::ParseResult& result, const JobOptions& job);
int default_batch(const JobOptions& job);

/// What -c says.
inline constexpr char kContextSize[] = "Context size in tokens (0: the trained context, at most 4096)";
void add_context(cxxopts::Options& flags, const char* fallback);
void read_context(const cxxopts::ParseResult& result, JobOptions& job);
/// -c; it must be 0 or at least `least`.
int read_context_size(const cxxopts::ParseResult& result, int least = 0);
/// Only -ctk and -ctv, `placeholder` for the value of each. Each takes one type.
void add_cache_types(cxxopts::Options& flags, const std::string& group, const char* placeholder);
CacheTypes read_cache_types(const cxxopts::ParseResult& result);
/// The type of this name. Throws UsageError naming `flag`.
CacheType parse_cache_type(const std::string& name, const char* flag);

void add_sampling(cxxopts::Options& flags);
SamplingParams read_sampling(const cxxopts::ParseResult& result);

inline constexpr char kSpeculationGroup[] = "Speculation";
/// Flags that a command knows, but that are of no use in it; --help does not show them.
inline constexpr char kUnlistedGroup[] = "Unlisted";
/// `strategies`: what --strategy selects; `strategy`: its default; `unlisted`: flags of this group that are of no use.
void add_speculation(cxxopts::Options& flags, const char* strategies, const char* strategy, const std::set<std::string>& unlisted = {},
                     const char* drafters = "Number of ranks that run each draft model");
/// Also reads the draft models, each repeated as --drafters says, and --no-async.
SpeculationOptions read_speculation(const cxxopts::ParseResult& result, JobOptions& job);

/// The flags of draft heads, in the same group.
void add_draft_heads(cxxopts::Options& flags);
void read_draft_heads(const cxxopts::ParseResult& result, JobOptions& job);

}  // namespace yamata
