#pragma once
// Options of commands: parts that several commands share, and a struct for each command (in commands/*_options.hpp).
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cache/kv_store.hpp"
#include "launch/program/planning/unit_profile.hpp"
#include "launch/program/planning/units.hpp"
#include "mpi/decoding/speculation_options.hpp"
#include "node/tensor_type.hpp"
#include "node/topology.hpp"

namespace yamata {

/// The source of a text.
struct TextSource {
  std::optional<std::string> prompt;  ///< -p
  std::string file;                   ///< -f; -: standard input
  std::string pre_tokenizer;          ///< --pre; empty: the one named in the model's file
};

/// How layers are divided among ranks.
struct LayerSplit {
  enum class By {
    kSpeed,          ///< auto: by measured speed, which may come from the cache
    kMeasuredSpeed,  ///< measure: the same, but measured anew
    kBytes,          ///< bytes
    kShares,         ///< as in `text`
  };
  By by = By::kSpeed;
  std::string text = "auto";  ///< the flag's value

  static LayerSplit parse(const std::string& text);
};

/// The files of a job's models.
struct ModelFiles {
  std::string target;
  std::vector<std::string> drafts;       ///< -md, each repeated as --drafters says
  std::vector<std::string> draft_heads;  ///< --heads: files of draft heads, which guess from the target's hidden states
  bool mtp = false;                      ///< --mtp: the last of these is the model's own file
  std::string draft_heads_kind;          ///< --heads-kind; empty: determined by the file's tensors
  std::optional<TensorType> draft_heads_matrices = TensorType::Q8_0;  ///< --heads-quant

  std::vector<std::string> all() const {
    std::vector<std::string> files{target};
    files.insert(files.end(), drafts.begin(), drafts.end());
    files.insert(files.end(), draft_heads.begin(), draft_heads.end());
    return files;
  }
  /// Whether a draft or heads are given.
  bool guess() const { return !drafts.empty() || !draft_heads.empty(); }
};

/// What computes on each rank.
struct ComputeOptions {
  int threads = 0;                    ///< -t; 0: the fastest number, within this rank's share of the cores
  bool measure_threads = false;       ///< -t measure: measure that number anew
  std::vector<UnitSpec> units;        ///< --units; empty: one unit with these threads
  std::optional<int> gpu_layers;      ///< -ngl: number of the target's first layers that a device computes alone, or wire::kLayersThatFit
  bool offload = false;               ///< --offload: it computes the others, too, whose weights are copied to it for every run
  std::vector<UnitSpec> draft_units;  ///< --draft-units: for drafts and heads; empty: the same
  ShareRule share_rule = ShareRule::kAdaptive;
  AttentionCut attention_cut = AttentionCut::kHeads;  ///< --attention-cut
  bool attention_cut_given = false;
  Numa numa = Numa::kAuto;
  bool repack = true;
};

/// Which rank holds what, and the strategy, as far as the flags say.
struct LayoutOptions {
  LayerSplit split;
  bool planned = false;              ///< choose by simulation what --layer-split, --strategy and drafts leave open
  std::optional<Strategy> strategy;  ///< nothing: auto
  bool draft_on_head = false;        ///< --no-async
  bool guesses_text = false;         ///< guess from suffixes of the text, if anything guesses
};

/// The size of runs and of the cache.
struct CacheOptions {
  int context = 0;  ///< -c; 0: the model's context length, at most kDefaultContext
  int batch = 64;   ///< -b
  CacheTypes types;
  const char* shorter_context = "lower -c";  ///< how the command's user makes the context shorter
};

/// What a rank does whose machine lacks a model's file.
struct FetchOptions {
  enum class Mode {
    kAuto,    ///< fetch what it needs from rank 0, and keep it
    kNever,   ///< that is an error
    kMemory,  ///< fetch it, and keep it in memory only
  };
  Mode mode = Mode::kAuto;
  std::string folder;  ///< --weights-cache; empty: below Yamata's cache folder
};

/// Options of a job with several ranks, for any command.
struct JobOptions {
  ModelFiles models;
  ComputeOptions compute;
  LayoutOptions layout;
  CacheOptions cache;
  FetchOptions fetch;
  bool trace = false;
  bool needs_drafters = false;  ///< a lost drafter ends the job
  std::chrono::milliseconds timeout{120000};
  std::chrono::milliseconds serving_timeout{120000};
};

/// The options with the strategy decided for a job of `ranks` ranks. With a draft model: pipeinfer if there are ranks for it, speculative
/// if one rank must do both. Without one, or if the draft models of a job do not fit, the draft models are dropped, and guesses come from
/// suffixes of the text: pipeinfer, or on a single rank speculative. iterative if nothing guesses. Throws UsageError if --layer-split names
/// ranks for a draft in a job that is to be iterative.
JobOptions decided(JobOptions options, int ranks);

}  // namespace yamata
