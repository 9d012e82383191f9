#pragma once
// What the commands can be asked for: parts that several share, and a struct for each command (in commands/*_options.hpp).
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cache/kv_store.hpp"
#include "launch/planning/unit_profile.hpp"
#include "launch/planning/units.hpp"
#include "mpi/decoding/speculation_options.hpp"
#include "node/topology.hpp"

namespace yamata {

/// Where a text comes from.
struct TextSource {
  std::optional<std::string> prompt;  ///< -p
  std::string file;                   ///< -f; -: standard input
  std::string pre_tokenizer;          ///< --pre; empty: what the model's file names
};

/// How layers are shared out among ranks.
struct LayerSplit {
  enum class By {
    kSpeed,          ///< auto: by measured speed, as remembered
    kMeasuredSpeed,  ///< measure: the same, measured anew
    kBytes,          ///< bytes
    kShares,         ///< as the text says
  };
  By by = By::kSpeed;
  std::string text = "auto";  ///< as it was written

  static LayerSplit parse(const std::string& text);
};

/// What a job of several ranks needs to know, whatever its command.
struct JobOptions {
  std::string model;
  std::vector<std::string> draft_models;  ///< -md, each as often as --drafters says
  std::vector<std::string> heads;         ///< --heads: files of heads that guess from the target's hidden states
  bool mtp = false;                       ///< --mtp: the last of these is the model's own file
  std::string heads_kind;                 ///< --heads-kind; empty: what the files' tensors say
  bool quantize_heads = true;             ///< --heads-quant q8_0
  std::optional<Strategy> strategy;       ///< nothing: auto
  bool draft_on_head = false;             ///< --no-async
  bool guesses_text = false;              ///< what texts repeat is guessed, where anything is
  bool plans_layout = false;              ///< what --layer-split, --strategy and drafts leave open is chosen by playing it
  LayerSplit layer_split;
  int generate = 128;                 ///< -n
  int context = 0;                    ///< -c; 0: what the model was trained for, at most kDefaultContext
  int batch = 64;                     ///< -b
  int threads = 0;                    ///< -t; 0: as many as are fastest, of this rank's share of the cores
  bool measure_threads = false;       ///< -t measure: which those are is measured anew
  std::vector<UnitSpec> units;        ///< --units; empty: one, of those threads
  std::optional<int> gpu_layers;      ///< -ngl: first layers of the target that a device has whole; nothing: auto
  std::vector<UnitSpec> draft_units;  ///< --draft-units: of drafts and heads; empty: the same
  ShareRule share_rule = ShareRule::kAdaptive;
  Numa numa = Numa::kAuto;
  CacheTypes cache_types;
  bool repack = true;
  bool trace = false;
  std::chrono::milliseconds timeout{120000};

  /// Whether anything is given that guesses.
  bool guesses() const { return !draft_models.empty() || !heads.empty(); }
};

/// The options with the strategy decided for a job of this many ranks. With a draft model pipeinfer where there are ranks for it,
/// speculative where there is one rank for both. Without one, or where there is no room for several, the draft models go, and what texts
/// repeat is guessed: pipeinfer, on a single rank speculative. iterative where nothing guesses.
JobOptions decided(JobOptions options, int ranks);

}  // namespace yamata
