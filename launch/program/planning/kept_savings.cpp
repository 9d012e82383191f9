#include "launch/program/planning/kept_savings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tuple>
#include <utility>

#include "mpi/decoding/speculation_options.hpp"
#include "node/fnv1a.hpp"

namespace yamata {
namespace {

std::string text_of(const PolicyOptions& p) {
  std::string text = fmt::format("{} {} {} {} {} {} {} {} {} {}", p.name, p.draft, p.threshold, p.accept, p.split, p.recovery, p.decay,
                                 p.branches, p.depth, p.children);
  if (p.sequences > 0 || p.budget > 0) text += fmt::format(" {} of {}", p.sequences, p.budget);
  if (p.tree) {
    for (const StaticTree::Node& node : p.tree->nodes) text += fmt::format(" {}/{}", node.parent, node.rank);
  }
  return text;
}

/// A greedy text depends on the penalty only.
std::string text_of(const SamplingParams& s) {
  std::string text = s.repeat_penalty == 1 ? "" : fmt::format("{} {}", s.repeat_penalty, s.repeat_last_n);
  if (s.temperature > 0) text += fmt::format(" {} {} {} {}", s.temperature, s.top_k, s.top_p, s.min_p);
  return text;
}

std::string lookup_of(const DecodeOptions& d) {
  if (d.lookup && d.lookahead.on()) return fmt::format("lookahead {} {} {}", d.lookahead.window, d.lookahead.ngram, d.lookahead.guesses);
  return !d.lookup ? "false" : d.datastore ? "datastore" : d.prompt_lookup > 0 ? fmt::format("prompt {}", d.prompt_lookup) : "true";
}

std::string text_of(const DecodeOptions& d) {
  std::string text = fmt::format("{} {} {} {} {} {} {}", strategy_name(d.strategy), text_of(d.policy), d.sequences.end, lookup_of(d),
                                 d.cancel, d.reuse_tree, d.continuous);
  if (d.cancel_route == CancelRoute::kBackward) text += " backward";
  if (d.typical) text += fmt::format(" {} {}", d.typical->epsilon, d.typical->delta);
  return text;
}

std::string text_of(const Layout& layout, const std::vector<std::uint64_t>& fingerprints) {
  std::string text;
  for (const ModelPlace& place : layout)
    text += fmt::format("{} {} {} {},", place.model, fingerprints.at(static_cast<std::size_t>(place.model)), fmt::join(place.ranks, "+"),
                        fmt::join(place.groups, "+"));
  return text;
}

auto sums(const DraftSums& s) { return std::tuple(s.steps, s.tokens, s.own, s.times, s.costs); }

}  // namespace

std::uint64_t fingerprint(const SavingsConditions& c) {
  Fnv1a hash;
  hash.add(fmt::format("{};{};{}", text_of(c.decode), text_of(c.sampling), text_of(c.layout, c.fingerprints)));
  return hash.value();
}

KeptSavings::KeptSavings(std::string folder, MeasurementKey key, std::int64_t now_s)
    : folder_(std::move(folder)), key_(std::move(key)), earlier_(read_savings(folder_, key_, now_s)) {}

void KeptSavings::keep(const DraftSums& all, std::int64_t now_s) const {
  const bool grown = earlier_ ? sums(all) != sums(earlier_->sums) : all.steps > 0;
  if (grown) keep_savings(folder_, key_, {all, earlier_ ? earlier_->since_s : now_s}, now_s);
}

}  // namespace yamata
