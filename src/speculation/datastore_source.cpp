#include "src/speculation/datastore_source.hpp"

#include <algorithm>

namespace yamata {
namespace {

constexpr std::size_t kLongestPassage = 16;  // tokens, as in the paper's program

}  // namespace

void DatastoreSource::begin(std::uint64_t /*request*/) {
  places_.clear();
  read_ = 0;
}

/// A passage that the datastore has ends with one that it has, too.
void DatastoreSource::read(std::int32_t token) {
  places_.insert(places_.begin(), SuffixTrie::Place{});
  std::size_t known = 0;
  while (known < std::min(places_.size(), kLongestPassage) && datastore_->trie().step(places_[known], token)) ++known;
  places_.resize(known);
}

bool DatastoreSource::guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) {
  for (; read_ < text.size(); ++read_) read(text[read_]);
  std::size_t length = places_.size();
  while (length > 0 && datastore_->trie().followed(places_[length - 1]) == 0) --length;
  if (length == 0) return false;
  bool grown = false;
  std::vector<NodeId> nodes;
  for (const auto& way : datastore_->trie().continue_from(places_[length - 1], static_cast<std::size_t>(demand.most))) {
    const NodeId parent = way.parent < 0 ? tree.root().id : nodes[static_cast<std::size_t>(way.parent)];
    NodeId& node = nodes.emplace_back(tree.child(parent, way.token));
    if (node != kNoNode && calibration_.guessed(tree, node)) continue;
    node = calibration_.add(tree, parent, way.token, way.probability);
    grown = true;
  }
  return grown;
}

}  // namespace yamata
