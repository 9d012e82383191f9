#include "src/speculation/suffix_trie.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

namespace yamata {

SuffixTrie::SuffixTrie(std::size_t depth) : depth_(depth) { nodes_.emplace_back(); }

void SuffixTrie::begin_text() {
  open_.clear();
  texts_.emplace_back();
}

/// The longest suffix first: where it leaves a node, a shorter one may join that with the node before it.
void SuffixTrie::append(std::int32_t token) {
  texts_.back().push_back(token);
  nodes_[kRoot].count = static_cast<std::uint32_t>(++tokens_);
  if (open_.size() == depth_) open_.pop_front();  // it stays where it is, as deep as is looked
  open_.push_back(kRoot);
  for (std::uint32_t& node : open_) node = move(node, token);
}

SuffixTrie::Place SuffixTrie::end(std::size_t length) const {
  const std::uint32_t node = open_[open_.size() - length];
  return {node, nodes_[node].length};
}

std::uint32_t SuffixTrie::child(std::uint32_t node, std::int32_t token) const {
  const auto edge = edges_.find(key(node, token));
  return edge == edges_.end() ? kNone : edge->second;
}

std::uint32_t SuffixTrie::new_node() {
  if (free_.empty()) {
    nodes_.emplace_back();
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  const std::uint32_t node = free_.back();
  free_.pop_back();
  return node;
}

void SuffixTrie::release(std::uint32_t node) {
  nodes_[node] = {};
  free_.push_back(node);
}

/// The end of its edge is the token that was appended last.
void SuffixTrie::read_here(Node& node) const {
  node.text = first_text_ + static_cast<std::uint32_t>(texts_.size() - 1);
  node.begin = static_cast<std::uint32_t>(texts_.back().size()) - node.length;
}

/// Gives a node another count, one more or one less, and its place among the children of its parent: within what has the same count the
/// first, where it grows, else the last.
void SuffixTrie::reorder(std::uint32_t node, std::uint32_t count) {
  auto& siblings = nodes_[nodes_[node].parent].children;
  const std::uint32_t old = nodes_[node].count;
  const auto swap_with = [&](auto other) {
    const std::uint32_t place = nodes_[node].place, its = static_cast<std::uint32_t>(other - siblings.begin());
    std::swap(siblings[place], siblings[its]);
    nodes_[siblings[place]].place = place;
    nodes_[node].place = its;
  };
  const auto first_of = [&](std::uint32_t c) {
    return std::partition_point(siblings.begin(), siblings.end(), [&](std::uint32_t s) { return nodes_[s].count > c; });
  };
  if (count > old) {
    swap_with(first_of(old));
    nodes_[node].count = count;
    swap_with(first_of(count));
  } else {
    swap_with(first_of(count) - 1);  // the last of those with the old count
    nodes_[node].count = count;
  }
}

/// A suffix that ends at `from` goes on by a token; where it ends then.
std::uint32_t SuffixTrie::move(std::uint32_t from, std::int32_t token) {
  const std::uint32_t next = child(from, token);
  if (from != kRoot) {
    Node& node = nodes_[from];
    if (node.count == 1) {  // nobody else came here: its edge grows
      ++node.length;
      read_here(node);
      return from;
    }
    if (next != kNone && nodes_[next].count + 1 == node.count) return lengthen(from, next, token);
    --node.ended;
  }
  return next == kNone ? add_leaf(from, token) : enter(from, next, token);
}

std::uint32_t SuffixTrie::add_leaf(std::uint32_t parent, std::int32_t token) {
  const std::uint32_t leaf = new_node();
  Node& node = nodes_[leaf];
  node.ended = 1;
  node.length = 1;
  node.parent = parent;
  node.place = static_cast<std::uint32_t>(nodes_[parent].children.size());
  read_here(node);
  nodes_[parent].children.push_back(leaf);
  set_child(parent, token, leaf);
  reorder(leaf, 1);
  return leaf;
}

/// Into the edge of a child, and as far as its first token: what is behind that becomes a node below it.
std::uint32_t SuffixTrie::enter(std::uint32_t parent, std::uint32_t child, std::int32_t token) {
  if (nodes_[child].length > 1) {
    const std::uint32_t upper = new_node();
    Node& above = nodes_[upper];
    Node& below = nodes_[child];
    above.count = below.count;
    above.length = 1;
    above.parent = parent;
    above.place = below.place;
    above.children = {child};
    nodes_[parent].children[above.place] = upper;
    ++below.begin;
    --below.length;
    below.parent = upper;
    below.place = 0;
    set_child(parent, token, upper);
    set_child(upper, token_at(below, 0), child);
    child = upper;
  }
  reorder(child, nodes_[child].count + 1);
  ++nodes_[child].ended;
  read_here(nodes_[child]);
  return child;
}

/// All that came to a node went on alike, now that the last has: its edge takes the first token of its only child's.
std::uint32_t SuffixTrie::lengthen(std::uint32_t node, std::uint32_t child, std::int32_t token) {
  Node& above = nodes_[node];
  Node& below = nodes_[child];
  edges_.erase(key(node, token));
  if (below.length > 1) {
    ++above.length;
    ++below.begin;
    --below.length;
    set_child(node, token_at(below, 0), child);
    read_here(above);
    return node;
  }
  set_child(above.parent, token_at(above, 0), child);  // the child takes its place
  below.length += above.length;
  below.count = above.count;
  ++below.ended;
  below.parent = above.parent;
  below.place = above.place;
  nodes_[below.parent].children[below.place] = child;
  read_here(below);
  release(node);
  return child;
}

void SuffixTrie::forget_oldest() {
  if (texts_.size() == 1) open_.clear();
  const std::vector<std::int32_t>& text = texts_.front();
  for (std::size_t i = 0; i < text.size(); ++i) forget_suffix(std::span(text).subspan(i, std::min(depth_, text.size() - i)));
  nodes_[kRoot].count = static_cast<std::uint32_t>(tokens_ -= text.size());
  texts_.pop_front();
  ++first_text_;
}

/// Its end is the end of an edge, as it was when it came there.
void SuffixTrie::forget_suffix(std::span<const std::int32_t> suffix) {
  std::uint32_t node = kRoot;
  for (std::size_t taken = 0; taken < suffix.size(); taken += nodes_[node].length) {
    node = child(node, suffix[taken]);
    reorder(node, nodes_[node].count - 1);
  }
  --nodes_[node].ended;
  while (node != kRoot && nodes_[node].count == 0) {
    const std::uint32_t parent = nodes_[node].parent;
    nodes_[parent].children.pop_back();  // nothing is less
    edges_.erase(key(parent, token_at(nodes_[node], 0)));
    release(node);
    node = parent;
  }
}

bool SuffixTrie::step(Place& place, std::int32_t token) const {
  const Node& node = nodes_[place.node];
  if (place.taken < node.length) {
    if (token_at(node, place.taken) != token) return false;
    ++place.taken;
    return true;
  }
  const std::uint32_t next = child(place.node, token);
  if (next == kNone) return false;
  place = {next, 1};
  return true;
}

std::uint32_t SuffixTrie::followed(Place place) const {
  const Node& node = nodes_[place.node];
  return place.taken < node.length ? node.count : node.count - node.ended;
}

float SuffixTrie::likeliest(Place place) const {
  const Node& node = nodes_[place.node];
  if (place.taken < node.length) return 1;
  return node.children.empty() ? 0 : static_cast<float>(nodes_[node.children[0]].count) / static_cast<float>(followed(place));
}

std::vector<SuffixTrie::Continuation> SuffixTrie::continue_from(Place place, std::size_t most, float least) const {
  struct Candidate {
    float path_probability, probability;
    std::uint32_t length;   // of the path
    std::uint32_t order;    // in which it was found
    std::int32_t parent;    // in the list
    Place place;            // behind its token
    std::uint32_t sibling;  // it is so-manieth of its siblings
  };
  const auto worse = [](const Candidate& a, const Candidate& b) {
    return std::tuple(-a.path_probability, a.length, a.order) > std::tuple(-b.path_probability, b.length, b.order);
  };
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(worse)> open(worse);
  std::vector<Continuation> found;
  std::uint32_t order = 0;
  const auto consider = [&](Place at, std::uint32_t sibling, float path_probability, std::uint32_t length, std::int32_t parent) {
    const Node& node = nodes_[at.node];
    Candidate next{path_probability, 1, length, order++, parent, {at.node, at.taken + 1}, 0};
    if (at.taken == node.length) {
      if (sibling >= node.children.size()) return;
      const std::uint32_t down = node.children[sibling];
      next.probability = static_cast<float>(nodes_[down].count) / static_cast<float>(followed(at));
      next.path_probability *= next.probability;
      next.place = {down, 1};
      next.sibling = sibling;
    }
    if (next.path_probability >= least) open.push(next);
  };
  consider(place, 0, 1, 1, -1);
  while (!open.empty() && found.size() < most) {
    const Candidate best = open.top();
    open.pop();
    const Node& node = nodes_[best.place.node];
    found.push_back({best.parent, token_at(node, best.place.taken - 1), best.probability, best.path_probability});
    if (best.place.taken == 1) {  // first of an edge
      const Node& parent = nodes_[node.parent];
      consider({node.parent, parent.length}, best.sibling + 1,
               best.parent < 0 ? 1 : found[static_cast<std::size_t>(best.parent)].path_probability, best.length, best.parent);
    }
    consider(best.place, 0, best.path_probability, best.length + 1, static_cast<std::int32_t>(found.size() - 1));
  }
  return found;
}

}  // namespace yamata
