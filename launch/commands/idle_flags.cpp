#include "launch/commands/idle_flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "launch/program/options/flag_groups.hpp"

namespace yamata {
namespace {

using Setup = GuessingSetup;
using Names = std::vector<std::string>;

bool is_iterative(const Setup& s) { return s.layout.strategy == Strategy::kIterative; }
bool lacks_drafts(const Setup& s) { return !s.simulated && s.models.drafts.empty(); }
bool lacks_models(const Setup& s) { return !s.simulated && !s.models.guess(); }
bool splits_as_told(const Setup& s) { return s.layout.split.by == LayerSplit::By::kBytes || s.layout.split.by == LayerSplit::By::kShares; }
bool is_greedy(const Setup& s) { return s.sampling && s.sampling->temperature <= 0; }
bool has_other_policy(const Setup& s, const char* policy) { return s.speculation.policy.name != policy; }

/// All flags about guesses but `others`.
Names all_but(const std::set<std::string>& others) {
  Flags flags("", "");
  add_speculation(flags, "", "");
  add_draft_heads(flags);
  Names names = flags.names(kSpeculationGroup);
  std::erase_if(names, [&](const std::string& name) { return others.contains(name); });
  return names;
}

/// Flags that have no effect if `idle`.
struct Rule {
  Names flags;
  bool (*idle)(const Setup&);
  const char* why;
};

/// The first rule that applies to a flag counts.
const std::vector<Rule>& rules() {
  static const std::vector<Rule> all{
      {{"model-draft", "heads", "mtp", "draft-ms", "acceptance", "acceptance4", "over-confidence", "typical-epsilon", "typical-delta"},
       is_iterative,
       "with --strategy iterative, which does not guess; leave --strategy out"},
      {all_but({"strategy"}), is_iterative, "with --strategy iterative, which does not guess; leave --strategy out"},
      {{"draft-ms", "acceptance", "acceptance4", "over-confidence"},
       [](const Setup& s) { return s.simulated && !s.drafts; },
       "with --drafters 0, so without a draft; leave it out, or give --drafters 1"},
      {{"top-k", "top-p", "min-p", "seed"}, is_greedy, "with greedy decoding; sample with --temp T, such as --temp 0.8, or leave it out"},
      {{"repeat-last-n"},
       [](const Setup& s) { return s.sampling && s.sampling->repeat_penalty == 1; },
       "without a penalty; add --repeat-penalty R, such as 1.1, or leave it out"},
      {{"requests"},
       [](const Setup& s) { return !s.simulated && splits_as_told(s); },
       "with --layer-split bytes or with shares; leave one of them out"},
      {{"requests"},
       [](const Setup& s) { return !s.simulated && !s.models.draft_heads.empty(); },
       "with draft heads, for which no layout is chosen; give one with --layer-split"},
      {{"drafters"}, lacks_drafts, "without a draft model; name one with -md FILE.gguf"},
      {{"no-async", "draft-units"}, lacks_models, "without a draft model or heads; name one with -md FILE.gguf or --heads FILE"},
      {{"draft-units"}, [](const Setup& s) { return s.simulated; }, "in a simulation, which knows ranks but no units; leave it out"},
      {{"heads-kind"},
       [](const Setup& s) { return s.models.draft_heads.size() == (s.models.mtp ? 1 : 0); },
       "without --heads; name a file of draft heads with --heads FILE"},
      {{"heads-quant"},
       [](const Setup& s) { return s.models.draft_heads.empty(); },
       "without draft heads; name a file of them with --heads FILE, or take the model's own with --mtp"},
      {all_but({"strategy", "no-lookup"}), [](const Setup& s) { return lacks_models(s) && !s.speculation.lookup; },
       "without a draft model and with --no-lookup; leave --no-lookup out, or name a draft model with -md FILE.gguf"},
      {all_but({"strategy", "no-lookup"}), [](const Setup& s) { return lacks_models(s) && !s.layout.guesses_text; },
       "without a draft model or heads, as this policy does not guess from the text; name one with -md FILE.gguf or --heads FILE"},
      {{"typical-epsilon", "typical-delta"},
       [](const Setup& s) { return !s.simulated && !s.speculation.typical; },
       "without --acceptance typical; add that"},
      {{"prompt-lookup", "datastore", "lookahead"},
       [](const Setup& s) { return !s.speculation.looks_up(); },
       "with this --preset, which does not guess from texts; leave it out"},
      {{"suffix-store"},
       [](const Setup& s) { return !s.speculation.uses_suffixes(); },
       "with this --preset, or with --prompt-lookup, --datastore or --lookahead, which do not guess from earlier outputs; leave it out"},
      {{"cancel-route"}, [](const Setup& s) { return !s.speculation.cancel; }, "with --no-cancel; leave one of them out"},
      {{"p-min"}, [](const Setup& s) { return has_other_policy(s, "best-first"); }, "with this policy, only with --policy best-first"},
      {{"p-accept", "p-split", "p-recovery", "p-decay", "parallel"},
       [](const Setup& s) { return has_other_policy(s, "chain"); },
       "with this policy, only with --policy chain"},
      {{"sequences", "budget"},
       [](const Setup& s) { return has_other_policy(s, "multi-sequence"); },
       "with this policy, only with --policy multi-sequence"},
      {{"tree-depth", "tree-children"},
       [](const Setup& s) { return has_other_policy(s, "dynamic-tree"); },
       "with this policy, only with --policy dynamic-tree"}};
  return all;
}

}  // namespace

std::vector<std::string> idle_flags(const GivenFlags& result, const std::vector<IdleReason>& reasons) {
  std::set<std::string> named;
  std::vector<std::string> lines;
  for (const auto& [flags, why] : reasons) {
    Names idle;
    for (const std::string& flag : flags) {
      if (result.given(flag) && named.insert(flag).second) idle.push_back(result.shown(flag));
    }
    if (!idle.empty()) lines.push_back(fmt::format("{} {} nothing {}", fmt::join(idle, ", "), idle.size() == 1 ? "does" : "do", why));
  }
  return lines;
}

std::vector<std::string> idle_flags(const GivenFlags& result, const GuessingSetup& setup) {
  std::vector<IdleReason> reasons;
  for (const Rule& rule : rules()) {
    if (rule.idle(setup)) reasons.push_back({rule.flags, rule.why});
  }
  return idle_flags(result, reasons);
}

}  // namespace yamata
