#pragma once
// Generation: decides which tokens run when, accepts guesses that agree with the target, cancels the others.
#include <functional>
#include <memory>
#include <optional>

#include "mpi/decoding/feature_readers.hpp"
#include "mpi/decoding/guess_sources.hpp"
#include "mpi/decoding/target.hpp"
#include "mpi/decoding/tree_runs.hpp"
#include "node/clock.hpp"
#include "src/grammar/token_grammar.hpp"
#include "src/sampling/typical.hpp"
#include "src/speculation/cost_model.hpp"
#include "src/speculation/forced_guesses.hpp"
#include "src/speculation/policy.hpp"

namespace yamata {

enum class Strategy {
  kIterative,    ///< the next token alone
  kSpeculative,  ///< pipelined synchronous speculation: draft, one verification run, again
  kPipeInfer,    ///< asynchronous continuous speculation with early cancellation
};

struct DecodeOptions {
  std::uint64_t request = 1;  ///< id by which drafters distinguish this text from earlier ones
  Strategy strategy = Strategy::kIterative;
  PolicyOptions policy;
  std::int32_t generate = 128;
  std::int32_t context = 0;  ///< number of positions
  /// cells beyond those of texts, for guesses of all texts together; in layers with states, their inputs, and those of accepted guesses
  /// that no state contains yet
  std::int32_t guess_cells = 0;
  std::int64_t hidden = 0;        ///< floats of a row in messages between stages; 0: the target's width
  std::int64_t vocabulary = 0;    ///< the same for logits
  std::int32_t slots = 1;         ///< texts at a time; each has as many sequences as the first
  std::int32_t kept_texts = 0;    ///< number of sequences behind those of all slots, for texts that stay in the cache
  SequenceRange sequences{0, 1};  ///< the text's sequences in the cache: the first holds the text, each other may hold a path of guesses
  std::int32_t batch = 64;        ///< prompt tokens per run
  bool cancel = true;             ///< --no-cancel: compute runs without living nodes to the end
  bool reuse_tree = true;         ///< --no-tree-reuse: draft again from the root after every acceptance
  bool continuous = true;         ///< --no-continuous: one speculative run at a time
  std::size_t logits = 0;         ///< how many of a row's highest logits are requested, as many as sampling reads; 0: all
  bool sums = false;              ///< with them, log_sum() while a token is sampled
  bool at_any_cost = false;       ///< sources guess at any cost
  bool lookup = false;            ///< sources include the text itself and earlier ones; --no-lookup: not
  int prompt_lookup = 0;          ///< --prompt-lookup: with `lookup`, its longest passage; 0: suffix decoding
  bool datastore = false;         ///< --datastore: with `lookup`, only given texts
  LookaheadOptions lookahead{};   ///< --lookahead: with `lookup`, no text
  /// --cancel-route
  CancelRoute cancel_route = CancelRoute::kDirect;
  std::shared_ptr<TokenGrammar> grammar{};     ///< which tokens may follow the text; nothing: any
  std::int32_t kept = 0;                       ///< with it, the last tokens of the prompt that are the beginning of the text
  std::optional<TypicalAcceptance> typical{};  ///< --acceptance typical; nothing: a guess is accepted if it is the sampled token

  /// Number of sequences of all slots, if these are those of the first.
  std::int32_t all_sequences() const { return sequences.begin + slots * (sequences.end - sequences.begin); }
};

/// Generates one text: a state machine over the target's pipeline, deterministic for a given order of arrivals. When it has finished,
/// another decoder may use the pipeline and the sources; late results and guesses of this text do not disturb it.
class Decoder {
 public:
  /// Samples the token after `history` from the logits, and may change them. Called once per committed token, in order.
  using Choose = std::function<std::int32_t(std::vector<float>& logits, std::span<const std::int32_t> history)>;
  /// Called for every committed token; false ends the text after it.
  using OnToken = std::function<bool(std::int32_t token)>;

  struct Counters {
    std::uint64_t runs_started = 0, runs_cancelled = 0, target_evaluations = 0;
    std::uint64_t drafted = 0, accepted = 0;  ///< guesses that were sent; those of them that became text
    double cost_coefficient = 0;   ///< DuoDecoding's c: time of a run of the target / time of a guess, as measured last; 0: not known
    std::size_t draft_budget = 0;  ///< its gamma, as chosen last; 0: another policy
    std::vector<std::uint64_t> sequences;  ///< number of steps in which it drafted 1, 2, ... sequences
    double deciding_s = 0;                 ///< the head's own work without sampling and printing: mostly choosing and sending runs
    /// Parts of it: sources are asked, their guesses join the tree, and those of a run are chosen; a run's rows get cells, sequences and
    /// masks, and it is sent; guesses are compared with the text, and the tree is cut.
    double candidates_s = 0, buffers_s = 0, posterior_s = 0;
    std::vector<std::pair<std::uint64_t, StaticTree>> trees;  ///< with a trace: by run, the guesses that were sent with the root

    /// Adds those of a later part of the same text.
    Counters& operator+=(const Counters& later);
  };

  /// `target` and `sources` outlive this.
  Decoder(Target& target, GuessSources& sources, const DecodeOptions& options, Choose choose, OnToken on_token);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// `cached`: what need not be computed.
  void begin(const std::vector<std::int32_t>& prompt, CachedBeginning cached = {});
  /// Whether any source reads the target's features, for all of the prompt.
  bool reads_features() const { return !readers_.layers().empty(); }
  /// Sends the cache operations that are due: then the first sequence holds all computed tokens of the text.
  void send_operations() { runs_.send_operations(); }
  /// By which drafters distinguish the text from others.
  std::uint64_t request() const { return options_.request; }
  /// The text so far, and how many of its tokens are computed by all stages.
  const std::vector<std::int32_t>& text() const { return runs_.text(); }
  std::size_t computed() const;
  /// How many free cells its text may use next: guesses are not counted, but those that became text since its latest run.
  std::int32_t cells_needed() const;
  void on_guesses(int rank, const wire::Guesses& guesses);
  /// A drafter is lost: the text continues without it.
  void drop_drafter(int rank);
  /// Whether decoding is blocked until this drafter has sent everything that it was asked for.
  bool awaits(int rank) const;
  /// Does what is possible now; true if anything happened.
  bool advance() { return receive() | send(); }
  /// The first half of it: takes the results that have arrived.
  bool receive();
  /// The second half, if there is no other text: sends all that can be sent now.
  bool send();
  bool finished() const { return finished_; }

  // What may be sent next, if there are several texts; a scheduler chooses.
  /// A part of the prompt.
  bool has_prompt() const;
  /// Sends up to `most` tokens of it.
  void send_prompt(std::int32_t most);
  /// The text's last token, for which no draft must be awaited.
  bool has_root() const { return !finished_ && !held_ && !reads_prompt() && !runs_.tree().root().sent && !drafts_pending(); }
  /// Since when there has been one.
  Clock::time_point grown_at() const { return last_text_; }
  /// Sends it, with guesses that are worth their rows. `others`: rows of other texts in the same run. False if it is better to wait.
  bool send_root(std::int32_t others);
  /// Sends guesses into the pipeline while its first stage is free.
  bool send_guesses();
  /// Runs in flight.
  std::size_t in_flight() const { return runs_.in_flight(); }

  /// Called when a run with the next part of the prompt has been sent, with the number of tokens that have; the stages will compute it
  /// unless the text is left before.
  std::function<void(std::size_t tokens)> on_prompt_sent;
  /// If there are several texts: calls it after the batcher has sent the run.
  void tell_prompt_sent();
  /// After the end of the text: its last token is computed, too. Whether there are cells for that.
  bool compute_end() {
    const bool possible = std::ssize(text()) <= options_.context && target_.cells().free_cells() > 0;
    if (possible) runs_.submit_end();
    return possible;
  }
  /// Ends the text now; runs in flight are no longer needed.
  void leave();
  /// The prompt has been computed and its first token chosen.
  bool prefilled() const { return generated_ > 0; }
  /// Tokens of the prompt that are computed, and of these, those that were in the cache.
  std::size_t prompt_computed() const { return prompt_computed_; }
  std::size_t reused() const { return reused_; }
  /// While Choose is called: log of the sum of exp(logit) of the whole row; nothing unless the options ask for it, or if all logits are
  /// there.
  std::optional<float> log_sum() const { return log_sum_; }
  const Counters& counters() const { return counters_; }

 private:
  bool timed(const std::function<bool()>& work);
  bool take_results();
  bool holds_results() const;
  void accept(const TreeRuns::Finished& done);
  bool take(const TreeRuns::Run& run, const RunResult& result);
  void called_back(Clock::time_point began);
  void step_ended(const TreeRuns::Run& run, std::int32_t tokens);
  bool measures_alone() const;
  double token_alone_s() const;
  void learn_speed(const TreeRuns::Run& run, bool skipped);
  bool reads_prompt() const;
  bool holds_prompt() const;
  void submit_prompt(std::size_t most);
  void walk(const TreeRuns::Run& run, const RunResult& result);
  void tell_best(const TreeRuns::Run& run, const RunResult& result) const;
  void tell_features(const TreeRuns::Run& run, const RunResult& result, std::int32_t position, std::int32_t row);
  void commit(std::int32_t token);
  void ask_sources();
  GuessDemand demand(const GuessSource& source) const;
  void drop_guesses();
  bool send_next();
  bool send_step(std::int32_t others);
  bool worth_waiting(std::span<const NodeId> nodes, const std::vector<double>& marginal);
  bool speculate();
  bool submit(std::span<const NodeId> nodes);
  std::int32_t held_guess_cells() const;
  std::size_t free_guess_cells() const;
  void count_guess_cells();
  bool drafts_pending() const;
  bool at_any_cost() const;
  bool has_turn_here(const GuessSource& source) const;
  bool drafts_here() const;
  bool root_waits_for(const GuessSource& source) const;
  bool root_waits_until_complete(const GuessSource& source) const;
  void plan_step();
  std::int32_t guesses_of_step(const GuessSource& source) const;
  bool drafts_during_runs() const;
  void count_sequences(NodeId tip);
  std::vector<NodeId> choose_guesses(const RunCosts& costs);
  double steps_in_flight() const;
  TargetTimes times() const;

  GuessCells& guess_cells_;
  Pipeline& target_;
  PipelineSpeed& speed_;
  GuessSources& sources_;
  const DecodeOptions options_;
  Choose choose_;
  OnToken on_token_;
  std::unique_ptr<Policy> policy_;
  std::optional<ForcedGuesses> forced_;  // if there is a grammar
  const FeatureReaders readers_;
  TreeRuns runs_;
  std::uint64_t epoch_ = 0;
  std::optional<const DraftLink*> turn_;  // whose draft this rank computes; see GuessSources
  std::int32_t generated_ = 0;
  std::size_t prompt_computed_ = 0, reused_ = 0;
  std::optional<float> log_sum_;
  bool prompt_untold_ = false;  // a part of the prompt has been sent since on_prompt_sent was called
  bool tree_changed_ = false;   // since the policy last found nothing to send
  bool awaits_batch_ = false;   // the guesses that it found were too few, and more are being drafted
  bool finished_ = false;
  std::optional<TreeRuns::Finished> held_;  // a result that waits for a draft; see holds_results
  Clock::time_point last_text_;
  bool awaited_draft_ = false, sends_root_alone_ = false;  // in this step
  bool begun_ = false;
  std::int32_t own_guess_cells_ = 0;  // as counted
  std::size_t counted_accepted_ = 0;  // cells of guesses that had become text then
  Clock::time_point began_, prefilled_;
  double busy_before_s_ = 0;  // of the first stage, when this text began
  double callbacks_s_ = 0;    // sampling and printing since advance began
  Counters counters_;
};

}  // namespace yamata
