#include "launch/options.hpp"

#include <array>
#include <utility>

namespace yamata {
namespace {

/// Cells for guesses, beside those of the context, and as many paths: 16 runs of the default --draft. 32 to 256 are equally fast in the
/// sweep of docs/speculation.md.
constexpr std::int32_t kGuessCells = 128;

constexpr std::array<std::pair<Strategy, const char*>, 3> kStrategies{
    {{Strategy::kIterative, "iterative"}, {Strategy::kSpeculative, "speculative"}, {Strategy::kPipeInfer, "pipeinfer"}}};

}  // namespace

LayerSplit LayerSplit::parse(const std::string& text) {
  LayerSplit split{By::kShares, text};
  if (text == "auto") split.by = By::kSpeed;
  if (text == "measure") split.by = By::kMeasuredSpeed;
  if (text == "bytes") split.by = By::kBytes;
  return split;
}

const char* strategy_name(Strategy strategy) { return kStrategies.at(static_cast<std::size_t>(strategy)).second; }

std::optional<Strategy> find_strategy(const std::string& name) {
  for (const auto& [strategy, known] : kStrategies) {
    if (name == known) return strategy;
  }
  return std::nullopt;
}

JobOptions decided(JobOptions o, int ranks) {
  const bool named = o.layer_split.text.find('/') != std::string::npos;  // ranks for the draft: the layout says whether there are any
  const bool fits = ranks > static_cast<int>(o.draft_models.size()) || o.draft_on_head || named;
  const bool beside = o.draft_models.size() == 1;  // it takes turns with rank 0's layers, where that pays
  if (!o.strategy) {
    o.strategy = o.draft_models.empty() ? Strategy::kIterative
                 : fits                 ? Strategy::kPipeInfer
                 : beside               ? Strategy::kSpeculative
                                        : Strategy::kIterative;
  }
  if (o.strategy == Strategy::kIterative) o.draft_models.clear();
  return o;
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
  decode.continuous = speculation.continuous;
  decode.continue_tip = speculation.continue_tip;
  decode.lookup = speculates && speculation.looks_up();
  decode.logits = logits_read(sampling, 0);
  return decode;
}

}  // namespace yamata
