#pragma once
// Options of decoding, made from flags.
#include <optional>
#include <string>

#include "mpi/decoding/decoder.hpp"
#include "src/sampling/sampler.hpp"

namespace yamata {

/// How guesses are made and sent, apart from the strategy.
struct SpeculationOptions {
  PolicyOptions policy;
  bool lookup = true;          ///< --no-lookup
  int prompt_lookup = 0;       ///< --prompt-lookup, in place of suffix decoding; 0: not
  std::string datastore;       ///< --datastore, in place of suffix decoding; empty: none
  LookaheadOptions lookahead;  ///< --lookahead, in place of suffix decoding
  std::string suffix_store;    ///< --suffix-store; empty: none
  std::string tree_file;       ///< --tree, which is in `policy`; empty: none
  std::optional<TypicalAcceptance> typical;
  bool continuous = true, reuse_tree = true, cancel = true, multibuffer = true;
  CancelRoute cancel_route = CancelRoute::kDirect;

  /// Whether guesses also come from texts, or from lookahead decoding in place of these.
  bool looks_up() const { return policy.name != "chain" && lookup; }
  /// Whether they come from suffix decoding, the default.
  bool uses_suffixes() const { return looks_up() && prompt_lookup == 0 && datastore.empty() && !lookahead.on(); }
};

/// The decoding options of a job, without those that differ between requests.
DecodeOptions decode_options(Strategy strategy, const SpeculationOptions& speculation, int batch, int generate, int context,
                             const SamplingParams& sampling);

/// The strategy if only suffixes guess: pipeinfer on several stages, speculative on one.
Strategy strategy_for_texts(int stages);

/// "iterative", "speculative", "pipeinfer".
const char* strategy_name(Strategy strategy);
std::optional<Strategy> find_strategy(const std::string& name);

/// For a target of `stages` stages whose layers have states: lowers the number of guesses to what can be in flight, because each needs
/// memory in every layer.
void limit_guesses(DecodeOptions& decode, int stages);

}  // namespace yamata
