#pragma once
// Whoever guesses how the text goes on: a draft model on other ranks, the text itself (suffixes), heads that read the target's features.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/speculation/source_calibration.hpp"
#include "src/speculation/token_tree.hpp"

namespace yamata {

/// What the head wants of its sources at present, and what guesses are worth to it.
struct GuessDemand {
  std::uint64_t epoch = 0;      ///< how often the text has grown; 1: there is only the prompt
  std::int32_t most = 0;        ///< guesses that a run takes
  std::int32_t min_drafts = 0;  ///< guesses that a source is complete with, where the tip waits for some; 0: it goes on without end
  bool to_the_end = false;      ///< the tip waits until every source is complete
  bool rests = false;           ///< it is another source's turn on the unit that they share
  bool retell = false;          ///< guesses told before are forgotten
  bool at_any_cost = false;     ///< they are measured: whether they pay does not matter
  double token_s = 0;           ///< what a token of the text takes of late, at most alone_s; 0: not known
  double alone_s = 0;           ///< what a run of one token takes through all stages; 0: not known
  double row_s = 0;             ///< by how much a guess lengthens the run that verifies it, at all stages together
};

/// A result of the target has become text.
struct TextStep {
  std::int32_t tokens = 0;
  bool first = false;  ///< the result of the prompt
  double seconds = 0;  ///< since the result before
  double alone_s = 0;  ///< what a run of one token takes through all stages; 0: not known
};

/// When guesses are to be expected.
struct GuessLatency {
  double first_s = 0;  ///< until the next
  double next_s = 0;   ///< from that to the one after it
};

/// All sources grow one tree; each is calibrated against the text, and the same node may be guessed by several. A source serves one text
/// after the other. It never blocks.
class GuessSource {
 public:
  /// `index`: tells its guesses in a tree from those of other sources.
  explicit GuessSource(int index) : calibration_(index) {}
  virtual ~GuessSource() = default;

  /// What a user calls it.
  virtual std::string name() const { return "guesses"; }
  /// Another text begins, with nothing of it told. What has been learnt of the source itself stays.
  virtual void begin(std::uint64_t request) = 0;
  /// The text is `text`, all committed tokens; its last is the tree's root. Adds guesses below the root, or begins to make some
  /// elsewhere, which come later. True if the tree has grown. Called after the prompt and each time the text has grown. The tree may still
  /// hold earlier guesses: a node is not added twice (`calibration().guessed`), and a node's most probable child is added first.
  virtual bool guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) = 0;
  /// `next` is committed after the tree's root; called before the tree advances.
  virtual void learn(const TokenTree& tree, std::int32_t next) { calibration_.learn(tree, next); }
  /// Called once for every result that became text, after its tokens.
  virtual void step_ended(const TextStep&) {}

  /// How long its next guesses take; nothing where none are to be waited for.
  virtual std::optional<GuessLatency> next_guess() { return std::nullopt; }
  /// It has been asked about the text as it is, and not said all.
  virtual bool pending() const { return false; }
  /// It computes on the head's own unit, in turns with the target's layers.
  virtual bool shares_unit() const { return false; }

  /// The layers at which it reads the target's hidden states, ascending, as in StageBatch; none: it reads none. Asked as a text begins.
  virtual std::vector<std::int32_t> feature_layers() const { return {}; }
  /// The target's hidden states [feature_layers][dim] of a committed position. Positions ascend from 0, each comes once; those of the
  /// text's last token come with the token after it.
  virtual void take_features(std::int32_t /*position*/, std::span<const float> /*row*/) {}

  const SourceCalibration& calibration() const { return calibration_; }

 protected:
  SourceCalibration calibration_;
};

}  // namespace yamata
