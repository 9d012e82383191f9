#include "src/grammar/pattern.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "node/error.hpp"
#include "src/grammar/pattern_tree.hpp"

namespace yamata {
namespace {

constexpr std::size_t kMostPatternNodes = 20000, kMostPatternStates = 2048, kMostWork = 20'000'000;

[[noreturn]] void throw_too_large() { throw UsageError("'pattern': is too large; use fewer or smaller repetitions"); }

const Characters kEverything{{0, kLastCharacter}};

/// A nondeterministic automaton (Thompson's construction).
class PatternGraph {
 public:
  struct Edge {
    Characters characters;  // none: nothing is read
    std::uint32_t to;
  };

  std::uint32_t add_node() {
    if (edges_.size() >= kMostPatternNodes) throw_too_large();
    edges_.emplace_back();
    return static_cast<std::uint32_t>(edges_.size() - 1);
  }
  const std::vector<Edge>& edges(std::uint32_t node) const { return edges_[node]; }
  std::size_t nodes() const { return edges_.size(); }

  void add(std::uint32_t from, const PatternNode& part, std::uint32_t to) {
    switch (part.kind) {
      case PatternNode::Kind::kCharacters:
        if (!part.characters.empty()) edges_[from].push_back({part.characters, to});
        return;
      case PatternNode::Kind::kAlternatives:
        for (const PatternNode& alternative : part.parts) add(from, alternative, to);
        return;
      case PatternNode::Kind::kSequence:
        add_sequence(from, part.parts, to);
        return;
      case PatternNode::Kind::kRepeat:
        add_repeat(from, part, to);
        return;
      default:
        throw UsageError("'pattern': has a ^ or $ that is not at an end of an alternative of the whole, which is not supported");
    }
  }

  /// An alternative of the whole pattern: without ^ anything may stand before it, without $ anything after it.
  void add_alternative(std::uint32_t from, const PatternNode& sequence, std::uint32_t to) {
    std::vector<PatternNode> parts = sequence.parts;
    const bool begin = !parts.empty() && parts.front().kind == PatternNode::Kind::kBegin;
    if (begin) parts.erase(parts.begin());
    const bool end = !parts.empty() && parts.back().kind == PatternNode::Kind::kEnd;
    if (end) parts.pop_back();
    if (!begin) from = anything_after(from);
    const std::uint32_t inner = end ? to : add_node();
    add_sequence(from, parts, inner);
    if (!end) edges_[anything_after(inner)].push_back({{}, to});
  }

 private:
  std::uint32_t anything_after(std::uint32_t node) {
    const std::uint32_t loop = add_node();
    edges_[node].push_back({{}, loop});
    edges_[loop].push_back({kEverything, loop});
    return loop;
  }

  void add_sequence(std::uint32_t from, const std::vector<PatternNode>& parts, std::uint32_t to) {
    for (const PatternNode& part : parts) {
      const std::uint32_t next = add_node();
      add(from, part, next);
      from = next;
    }
    edges_[from].push_back({{}, to});
  }

  void add_repeat(std::uint32_t from, const PatternNode& repeat, std::uint32_t to) {
    const PatternNode& part = repeat.parts.front();
    const auto once = [&] {
      const std::uint32_t next = add_node();
      add(from, part, next);
      from = next;
    };
    for (int i = 0; i < repeat.least; ++i) once();
    if (!repeat.most) {
      const std::uint32_t loop = add_node();
      edges_[from].push_back({{}, loop});
      add(loop, part, loop);
      from = loop;
    } else {
      for (int i = repeat.least; i < *repeat.most; ++i) {
        edges_[from].push_back({{}, to});
        once();
      }
    }
    edges_[from].push_back({{}, to});
  }

  std::vector<std::vector<Edge>> edges_;
};

/// The subset construction.
class Determinizer {
 public:
  Determinizer(const PatternGraph& graph, std::uint32_t end) : graph_(graph), end_(end) {}

  CharacterAutomaton run(std::uint32_t start) {
    state_of({start});
    for (std::size_t s = 0; s < sets_.size(); ++s) {
      std::vector<CharacterAutomaton::Step> steps = steps_of(sets_[s]);
      all_.states[s].steps = std::move(steps);
    }
    return std::move(all_);
  }

 private:
  using Set = std::vector<std::uint32_t>;

  void work(std::size_t steps) {
    work_ += steps;
    if (work_ > kMostWork) throw_too_large();
  }

  Set closure(Set open) {
    std::vector<bool> seen(graph_.nodes());
    work(graph_.nodes() / 64);
    Set set;
    while (!open.empty()) {
      const std::uint32_t node = open.back();
      open.pop_back();
      if (seen[node]) continue;
      seen[node] = true;
      set.push_back(node);
      work(graph_.edges(node).size() + 1);
      for (const auto& edge : graph_.edges(node)) {
        if (edge.characters.empty()) open.push_back(edge.to);
      }
    }
    std::erase_if(set, [&](std::uint32_t node) {
      return node != end_ && std::ranges::all_of(graph_.edges(node), [](const auto& edge) { return edge.characters.empty(); });
    });
    std::sort(set.begin(), set.end());
    return set;
  }

  std::uint32_t state_of(Set open) {
    Set set = closure(std::move(open));
    const auto [found, added] = numbers_.emplace(set, static_cast<std::uint32_t>(sets_.size()));
    if (!added) return found->second;
    if (sets_.size() >= kMostPatternStates) throw_too_large();
    all_.states.push_back({.accepting = std::binary_search(set.begin(), set.end(), end_), .steps = {}});
    sets_.push_back(std::move(set));
    return found->second;
  }

  /// The characters are divided where a range of any edge begins or ends; parts that lead to the same nodes are joined again.
  std::vector<CharacterAutomaton::Step> steps_of(const Set& set) {
    std::map<char32_t, std::vector<std::pair<bool, std::uint32_t>>> changes;  // where targets begin (true) and end
    for (const std::uint32_t node : set) {
      for (const auto& edge : graph_.edges(node)) {
        for (const CharacterRange& range : edge.characters) {
          changes[range.low].push_back({true, edge.to});
          changes[range.high + 1].push_back({false, edge.to});
          work(1);
        }
      }
    }
    std::map<Set, Characters> ways;
    std::map<std::uint32_t, int> targets;  // with the number of ranges that lead there
    for (auto change = changes.begin(); change != changes.end(); ++change) {
      for (const auto& [begins, to] : change->second) {
        if ((targets[to] += begins ? 1 : -1) == 0) targets.erase(to);
      }
      if (targets.empty()) continue;
      work(targets.size());
      Set to;
      for (const auto& [node, count] : targets) to.push_back(node);
      ways[to].push_back({change->first, std::next(change)->first - 1});
    }
    std::map<std::uint32_t, Characters> steps;
    for (auto& [to, characters] : ways) {
      Characters& all = steps[state_of(to)];
      all.insert(all.end(), characters.begin(), characters.end());
    }
    std::vector<CharacterAutomaton::Step> found;
    for (auto& [to, characters] : steps) found.push_back({normalized(std::move(characters)), to});
    return found;
  }

  const PatternGraph& graph_;
  const std::uint32_t end_;
  CharacterAutomaton all_;
  std::vector<Set> sets_;
  std::map<Set, std::uint32_t> numbers_;
  std::size_t work_ = 0;
};

}  // namespace

CharacterAutomaton compile_pattern(std::string_view pattern) {
  const PatternNode tree = parse_pattern(pattern);
  PatternGraph graph;
  const std::uint32_t start = graph.add_node(), end = graph.add_node();
  for (const PatternNode& alternative : tree.parts) graph.add_alternative(start, alternative, end);
  return Determinizer(graph, end).run(start);
}

}  // namespace yamata
