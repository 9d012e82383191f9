#include "src/grammar/grammar_reader.hpp"

#include <algorithm>
#include <utility>

#include "node/error.hpp"
#include "node/fnv1a.hpp"

namespace yamata {
namespace {

using EdgeKind = ByteAutomaton::Kind;

[[noreturn]] void throw_too_many_states() {
  throw UsageError("the schema is too ambiguous: reading this text needs too many states; make its patterns and alternatives simpler");
}

void sort_unique(std::vector<std::uint32_t>& words) {
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
}

std::uint64_t pair_key(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} << 32 | b; }

}  // namespace

std::size_t GrammarReader::Hash::operator()(const std::vector<std::uint32_t>& words) const {
  Fnv1a hash;
  for (const std::uint32_t word : words) hash.add(word);
  return static_cast<std::size_t>(hash.value() ^ hash.value() >> 29);
}

GrammarReader::GrammarReader(ByteAutomaton automaton) : automaton_(std::move(automaton)), places_(1), seen_(automaton_.nodes()) {
  start_ = set_of({automaton_.start()});
}

/// The set of these nodes and of those that can be reached without a byte.
GrammarReader::SetIndex GrammarReader::set_of(std::vector<NodeIndex> nodes) {
  ++closure_;
  Set set;
  while (!nodes.empty()) {
    const NodeIndex node = nodes.back();
    nodes.pop_back();
    if (std::exchange(seen_[node], closure_) == closure_) continue;
    bool reads = automaton_.accepting(node) || automaton_.ends(node) != ByteAutomaton::kNoRule;
    automaton_.each_edge(node, [&](const ByteAutomaton::Edge& edge) {
      if (edge.kind == EdgeKind::kEmpty)
        nodes.push_back(edge.to);
      else
        reads = true;
    });
    if (!reads) continue;
    set.nodes.push_back(node);
    set.accepting |= automaton_.accepting(node);
    set.free |= automaton_.free(node);
  }
  std::sort(set.nodes.begin(), set.nodes.end());
  if (const auto found = set_numbers_.find(set.nodes); found != set_numbers_.end()) return found->second;
  if (sets_.size() >= kMostSets) throw_too_many_states();
  const auto index = static_cast<SetIndex>(sets_.size());
  set_numbers_.emplace(set.nodes, index);
  sets_.push_back(std::move(set));
  return index;
}

GrammarReader::Step GrammarReader::find_step(SetIndex set, std::uint8_t byte) {
  std::vector<NodeIndex> targets, opened;
  std::vector<RuleIndex> closed;
  for (const NodeIndex node : sets_[set].nodes) {
    automaton_.each_edge(node, [&](const ByteAutomaton::Edge& edge) {
      if (edge.kind == EdgeKind::kCall) {
        if (automaton_.rule(edge.rule).opens == byte) opened.push_back(automaton_.rule(edge.rule).start);
      } else if (edge.kind == EdgeKind::kBytes && byte >= edge.low && byte <= edge.high) {
        const RuleIndex rule = automaton_.ends(edge.to);
        rule == ByteAutomaton::kNoRule ? targets.push_back(edge.to) : closed.push_back(rule);
      }
    });
  }
  if (!closed.empty()) {
    sort_unique(closed);
    const auto [found, added] = closing_numbers_.emplace(closed, static_cast<std::uint32_t>(closings_.size()));
    if (added) closings_.push_back(closed);
    return {Move::kClose, found->second};
  }
  if (!opened.empty()) return {Move::kOpen, set_of(std::move(opened))};
  if (!targets.empty()) return {Move::kStay, set_of(std::move(targets))};
  return {Move::kNone, 0};
}

const GrammarReader::Step& GrammarReader::step_of(SetIndex set, std::uint8_t byte) {
  if (sets_[set].steps.empty()) sets_[set].steps.resize(256);
  if (sets_[set].steps[byte].move == Move::kUnknown) {
    const Step step = find_step(set, byte);  // may move sets_
    sets_[set].steps[byte] = step;
  }
  return sets_[set].steps[byte];
}

/// Where the caller is after one of these rules.
GrammarReader::SetIndex GrammarReader::after_rules(SetIndex set, std::uint32_t closing) {
  const std::uint64_t key = pair_key(set, closing);
  if (const auto found = returns_.find(key); found != returns_.end()) return found->second;
  const std::vector<RuleIndex>& rules = closings_[closing];
  std::vector<NodeIndex> targets;
  for (const NodeIndex node : sets_[set].nodes) {
    automaton_.each_edge(node, [&](const ByteAutomaton::Edge& edge) {
      if (edge.kind == EdgeKind::kCall && std::binary_search(rules.begin(), rules.end(), edge.rule)) targets.push_back(edge.to);
    });
  }
  const SetIndex after = set_of(std::move(targets));
  returns_.emplace(key, after);
  return after;
}

bool GrammarReader::step(Place& place, std::uint8_t byte) {
  const Step step = step_of(place.set, byte);
  switch (step.move) {
    case Move::kStay:
      place.set = step.to;
      return true;
    case Move::kOpen:
      place = {step.to, keep(place)};
      return true;
    case Move::kClose: {
      const Place parent = at(place.parent);
      place = {after_rules(parent.set, step.to), parent.parent};
      return true;
    }
    default:
      return false;
  }
}

const std::array<std::uint64_t, 4>& GrammarReader::following(Place place) {
  if (!sets_[place.set].following) {
    std::array<std::uint64_t, 4> bytes{};
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (step_of(place.set, static_cast<std::uint8_t>(byte)).move != Move::kNone) bytes[byte / 64] |= std::uint64_t{1} << byte % 64;
    }
    sets_[place.set].following = bytes;
  }
  return *sets_[place.set].following;
}

GrammarReader::PlaceIndex GrammarReader::keep(Place place) {
  if (places_.size() >= kMostPlaces) throw_too_many_states();
  const auto [found, added] = place_numbers_.emplace(pair_key(place.set, place.parent), static_cast<PlaceIndex>(places_.size()));
  if (added) places_.push_back(place);
  return found->second;
}

}  // namespace yamata
