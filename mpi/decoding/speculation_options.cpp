#include "mpi/decoding/speculation_options.hpp"

#include <array>
#include <utility>

namespace yamata {
namespace {

/// Number of cells, and of paths, for guesses, in addition to the cells of the context: 16 runs of the default --draft. Values from 32 to
/// 256 are equally fast in the sweep of docs/speculation.md.
constexpr std::int32_t kGuessCells = 128;

constexpr std::array<std::pair<Strategy, const char*>, 3> kStrategies{
    {{Strategy::kIterative, "iterative"}, {Strategy::kSpeculative, "speculative"}, {Strategy::kPipeInfer, "pipeinfer"}}};

}  // namespace

Strategy strategy_for_texts(int stages) { return stages > 1 ? Strategy::kPipeInfer : Strategy::kSpeculative; }

const char* strategy_name(Strategy strategy) { return kStrategies.at(static_cast<std::size_t>(strategy)).second; }

std::optional<Strategy> find_strategy(const std::string& name) {
  for (const auto& [strategy, known] : kStrategies) {
    if (name == known) return strategy;
  }
  return std::nullopt;
}

DecodeOptions decode_options(Strategy strategy, const SpeculationOptions& speculation, int batch, int generate, int context,
                             const SamplingParams& sampling) {
  DecodeOptions decode;
  decode.strategy = strategy;
  const bool speculates = strategy != Strategy::kIterative;
  decode.policy = speculation.policy;
  decode.generate = generate;
  decode.context = context;
  decode.guess_cells = speculates ? kGuessCells : 0;
  decode.sequences = {0, !speculates ? 1 : speculation.multibuffer ? kGuessCells + 1 : 2};
  decode.batch = batch;
  decode.cancel = speculation.cancel;
  decode.cancel_route = speculation.cancel_route;
  decode.continuous = speculation.continuous;
  decode.reuse_tree = speculation.reuse_tree;
  decode.lookup = speculates && speculation.looks_up();
  decode.prompt_lookup = speculation.prompt_lookup;
  decode.lookahead = speculation.lookahead;
  decode.datastore = !speculation.datastore.empty();
  decode.typical = speculates ? speculation.typical : std::nullopt;
  if (decode.typical) decode.typical->temperature = sampling.temperature;
  decode.logits = decode.typical ? 0 : logits_read(sampling, 0);
  return decode;
}

void limit_guesses(DecodeOptions& decode, int stages) {
  if (decode.strategy == Strategy::kIterative) return;
  const PolicyOptions& policy = decode.policy;
  const int tree = policy.tree ? policy.tree->width() - 1 : 0, lookahead = decode.lookahead.on() ? decode.lookahead.nodes() : 0;
  const int run = std::max({policy.draft, tree, policy.budget, lookahead});
  // While one run is computed, the accepted guesses of the one before are not in the states yet.
  const int runs = 1 + (decode.strategy == Strategy::kPipeInfer ? stages + 1 : 1);
  constexpr int kLeastInPipeline = 32;
  const int guesses = std::max(run * runs, decode.strategy == Strategy::kPipeInfer ? kLeastInPipeline : 0);
  decode.guess_cells = std::min(decode.guess_cells, guesses);
}

}  // namespace yamata
