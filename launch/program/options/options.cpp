#include "launch/program/options/options.hpp"

#include <fmt/format.h>

#include "launch/program/options/nearest_word.hpp"
#include "node/error.hpp"

namespace yamata {

LayerSplit LayerSplit::parse(const std::string& text) {
  LayerSplit split{By::kShares, text};
  if (text == "auto") split.by = By::kSpeed;
  if (text == "measure") split.by = By::kMeasuredSpeed;
  if (text == "bytes") split.by = By::kBytes;
  const std::string meant = split.by == By::kShares ? did_you_mean(text, {"auto", "measure", "bytes"}) : "";
  if (!meant.empty()) throw UsageError(fmt::format("--layer-split '{}' is neither shares nor a way to find them;{}", text, meant));
  return split;
}

JobOptions decided(JobOptions o, int ranks) {
  // it names ranks for the draft: the layout determines whether they exist
  const bool named = o.layer_split.text.find('/') != std::string::npos;
  if (named && o.strategy == Strategy::kIterative)
    throw UsageError(fmt::format(
        "--layer-split '{}': there are shares for a draft, but nothing drafts in a job that does not guess (--strategy iterative, "
        "perplexity, bench, features); give one share per rank without a slash, such as 0.5,0.3,0.2",
        o.layer_split.text));
  const bool fits = ranks > static_cast<int>(o.draft_models.size()) || o.draft_on_head || named;
  const bool beside = o.draft_models.size() == 1;  // a draft on rank 0 shares the unit with its layers, if that is worth it
  if (!o.strategy) {
    const bool drafts = !o.draft_models.empty() && (fits || beside);
    if (!drafts) o.draft_models.clear();
    if (drafts)
      o.strategy = fits ? Strategy::kPipeInfer : Strategy::kSpeculative;
    else if (o.guesses_text || !o.draft_heads.empty())
      o.strategy = strategy_for_texts(ranks);
    else
      o.strategy = Strategy::kIterative;
  }
  if (o.strategy == Strategy::kIterative) {
    o.draft_models.clear();
    o.draft_heads.clear();
  }
  return o;
}

}  // namespace yamata
