#pragma once
// Flags that several commands share: each group is declared and read here.
#include <set>
#include <string>
#include <vector>

#include "launch/program/options/flags.hpp"
#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

/// The flags of a command, with --model and --help.
Flags describe(const std::string& command, const std::string& what);
/// --model. Throws UsageError if there is none.
std::string read_model(const GivenFlags& result);

void add_text(Flags& flags);
/// Throws UsageError if both -p and -f are given.
TextSource read_text_source(const GivenFlags& result);
/// --prompt-format, for formatted_prompt (prompt_list.hpp).
void add_prompt_format(Flags& flags);
std::string read_prompt_format(const GivenFlags& result);

void add_numa(Flags& flags, const char* group);
Numa read_numa(const GivenFlags& result);

/// What --layer-split auto does in commands that do not choose a layout.
inline constexpr char kBySpeed[] = "by measured speed";
/// The flags of every command that runs a model on several ranks. `auto_split`: what --layer-split auto does.
void add_ranks(Flags& flags, const std::string& auto_split = kBySpeed);
void read_ranks(const GivenFlags& result, JobOptions& job);

/// What -t says about the threads of each rank.
inline constexpr char kThreadsOfRanks[] =
    "Compute threads of each rank (0: as many as are fastest by measurement, at most its share of its machine's cores; measure: the same, "
    "but ignore a remembered choice)";
/// The same, with threads and batch of a command that has only one job.
void add_cluster(Flags& flags, const std::string& auto_split = kBySpeed);
void read_cluster(const GivenFlags& result, JobOptions& job);
/// -b, or what suits the job's units.
int read_batch(const GivenFlags& result, const ComputeOptions& compute);
int default_batch(const ComputeOptions& compute);

/// What -c says.
inline constexpr char kContextSize[] = "Context size in tokens (0: the trained context, at most 4096)";
void add_context(Flags& flags, const char* fallback);
/// -c, which must be 0 or at least `least`, and the types of the cache.
void read_context(const GivenFlags& result, CacheOptions& cache, int least = 0);
/// -c; it must be 0 or at least `least`.
int read_context_size(const GivenFlags& result, int least = 0);
/// Only -ctk and -ctv, `placeholder` for the value of each. Each takes one type.
void add_cache_types(Flags& flags, const std::string& group, const char* placeholder);
CacheTypes read_cache_types(const GivenFlags& result);
/// The type of this name. Throws UsageError naming `flag`.
CacheType parse_cache_type(const std::string& name, const char* flag);

void add_sampling(Flags& flags);
SamplingParams read_sampling(const GivenFlags& result);

inline constexpr char kSpeculationGroup[] = "Speculation";
/// `strategies`: what --strategy selects; `strategy`: its default; `unlisted`: flags of this group that are of no use.
void add_speculation(Flags& flags, const char* strategies, const char* strategy, const std::set<std::string>& unlisted = {},
                     const char* drafters = "Number of ranks that run each draft model");
/// Draft models and where they run: -md, each repeated as --drafters says, --no-async and --draft-units.
void read_drafts(const GivenFlags& result, JobOptions& job);
/// What a preset has in place of the defaults of --policy and --draft.
struct PolicyDefaults {
  std::string policy;  ///< empty: as without a preset
  int draft = 0;       ///< 0: the same
};
/// The other flags of the group except --strategy.
SpeculationOptions read_speculation(const GivenFlags& result, const PolicyDefaults& defaults = {});

/// The flags of draft heads, in the same group.
void add_draft_heads(Flags& flags);
/// `models` has the target.
void read_draft_heads(const GivenFlags& result, ModelFiles& models);

}  // namespace yamata
