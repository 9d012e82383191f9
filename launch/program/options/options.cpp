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
  const bool named = o.layout.split.text.find('/') != std::string::npos;
  if (named && o.layout.strategy == Strategy::kIterative)
    throw UsageError(fmt::format(
        "--layer-split '{}': there are shares for a draft, but nothing drafts in a job that does not guess (--strategy iterative, "
        "perplexity, bench, features); give one share per rank without a slash, such as 0.5,0.3,0.2",
        o.layout.split.text));
  const bool fits = ranks > static_cast<int>(o.models.drafts.size()) || o.layout.draft_on_head || named;
  const bool beside = o.models.drafts.size() == 1;  // a draft on rank 0 shares the unit with its layers, if that is worth it
  if (!o.layout.strategy) {
    const bool drafts = !o.models.drafts.empty() && (fits || beside);
    if (!drafts) o.models.drafts.clear();
    if (drafts)
      o.layout.strategy = fits ? Strategy::kPipeInfer : Strategy::kSpeculative;
    else if (o.layout.guesses_text || !o.models.draft_heads.empty())
      o.layout.strategy = strategy_for_texts(ranks);
    else
      o.layout.strategy = Strategy::kIterative;
  }
  if (o.layout.strategy == Strategy::kIterative) {
    o.models.drafts.clear();
    o.models.draft_heads.clear();
  }
  return o;
}

}  // namespace yamata
