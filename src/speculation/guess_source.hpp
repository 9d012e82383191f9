#pragma once
// The interface of guess sources: draft models on other ranks, suffixes of the text, draft heads that read the target's features.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/speculation/source_calibration.hpp"
#include "src/speculation/step_cost.hpp"
#include "src/speculation/token_tree.hpp"

namespace yamata {

/// What the head currently needs from its sources, and the value of guesses.
struct GuessDemand {
  std::uint64_t epoch = 0;      ///< how often the text has grown; 1: only the prompt
  std::int32_t most = 0;        ///< most guesses of a run
  std::int32_t min_drafts = 0;  ///< if the root waits: number of guesses with which a source is complete; 0: it continues without end
  bool until_complete = false;  ///< the root waits until every source is complete
  bool suspended = false;       ///< the source makes no guesses: another one has its turn on the shared unit, or the root goes alone
  bool resend = false;          ///< earlier guesses have been removed, and must be sent again
  bool at_any_cost = false;     ///< guesses are made for measurement, whatever they cost
  double token_s = 0;           ///< recent time of a token of the text, at most alone_s; 0: not known
  double alone_s = 0;           ///< time of a token without any guesses; 0: not known
  double open = 1;              ///< probability that the next token is not among those that other sources have guessed
  double row_s = 0;             ///< how much a guess lengthens the run that verifies it, over all stages
};

/// A result of the target has become text.
struct TextStep {
  std::int32_t tokens = 0;
  bool first = false;               ///< the result of the prompt
  double seconds = 0;               ///< since the result before
  double alone_s = 0;               ///< time of a token without any guesses; 0: not known
  std::int32_t rows = 1;            ///< of the run
  const StepCost* run_s = nullptr;  ///< times of runs through all stages, by their rows
};

/// The expected times until guesses arrive.
struct GuessLatency {
  double first_s = 0;  ///< until the next
  double next_s = 0;   ///< from that to the one after it
};

/// All sources add to one tree. Each is calibrated with the text, and several may guess the same node. A source serves one text after
/// another. It never blocks.
class GuessSource {
 public:
  /// `index`: distinguishes its guesses in a tree from those of other sources.
  explicit GuessSource(int index) : calibration_(index) {}
  virtual ~GuessSource() = default;

  /// The name shown to users.
  virtual std::string name() const { return "guesses"; }
  /// Another text begins, which the source does not know yet. Its calibration is kept.
  virtual void begin(std::uint64_t request) = 0;
  /// `text` is all committed tokens; the last one is the tree's root. Adds guesses below the root, or starts to make some elsewhere, which
  /// arrive later. True if the tree has grown. Called after the prompt and each time the text has grown. The tree may still hold earlier
  /// guesses: do not add a node twice (`calibration().guessed`), and add a node's most probable child first.
  virtual bool guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) = 0;
  /// `next` is committed after the tree's root; called before the tree advances.
  virtual void learn(const TokenTree& tree, std::int32_t next) { calibration_.learn(tree, next); }
  /// The text has ended; another may begin.
  virtual void end() {}
  /// Called once for every result that became text, after its tokens.
  virtual void step_ended(const TextStep&) {}

  /// The latency of its next guesses; nothing if the root must not wait for them.
  virtual std::optional<GuessLatency> next_guess() { return std::nullopt; }
  /// Seconds that it needs for one guess; 0: not known yet; nothing: hardly any.
  virtual std::optional<double> guess_s() const { return std::nullopt; }
  /// It has been asked about the current text, and has not sent all its guesses.
  virtual bool pending() const { return false; }
  /// It computes on the head's own unit, in turns with the target's layers.
  virtual bool shares_unit() const { return false; }

  /// The layers at which it reads the target's hidden states, ascending, as in StageBatch; may be empty. Called when a text begins.
  virtual std::vector<std::int32_t> feature_layers() const { return {}; }
  /// Receives the target's hidden states [feature_layers][dim] of a committed position. Positions ascend from 0, and each arrives once;
  /// that of the text's last token arrives with the token after it.
  virtual void take_features(std::int32_t /*position*/, std::span<const float> /*row*/) {}

  /// Whether take_best is called.
  virtual bool reads_best() const { return false; }
  /// `tokens`: what the target holds most probable after each of `nodes`, which a run has computed. Called before the text grows by it.
  virtual void take_best(std::span<const NodeId> /*nodes*/, std::span<const std::int32_t> /*tokens*/) {}

  const SourceCalibration& calibration() const { return calibration_; }

 protected:
  SourceCalibration calibration_;
};

}  // namespace yamata
