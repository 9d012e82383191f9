#pragma once
// Reads bytes with an automaton: where a text stands, and which bytes may follow.
#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "src/grammar/byte_automaton.hpp"

namespace yamata {

/// Places are determinized while they are met: a place is the set of nodes at which the innermost open rule may be, and the place at which
/// that rule was opened. Places that are kept have numbers, which never change, so a text, each guess and each earlier point of a text is
/// one number. One thread at a time.
class GrammarReader {
 public:
  using SetIndex = std::uint32_t;
  using PlaceIndex = std::uint32_t;  ///< 0: none
  struct Place {
    SetIndex set = 0;
    PlaceIndex parent = 0;  ///< where the innermost open rule was opened
    bool operator==(const Place&) const = default;
  };
  static constexpr std::size_t kMostSets = 1 << 16, kMostPlaces = 1 << 20;

  explicit GrammarReader(ByteAutomaton automaton);

  Place start() const { return {start_, 0}; }
  /// Moves over a byte; false: it may not follow, and the place is unchanged. Throws UsageError if the schema needs too many sets.
  bool step(Place& place, std::uint8_t byte);
  bool accepting(Place place) const { return place.parent == 0 && sets_[place.set].accepting; }
  bool free(Place place) const { return sets_[place.set].free; }
  /// The bytes that may follow.
  const std::array<std::uint64_t, 4>& following(Place place);

  PlaceIndex keep(Place place);
  Place at(PlaceIndex index) const { return places_[index]; }
  std::size_t places() const { return places_.size(); }

 private:
  enum class Move : std::uint8_t { kUnknown, kNone, kStay, kOpen, kClose };
  struct Step {
    Move move = Move::kUnknown;
    std::uint32_t to = 0;  // a set; kClose: an entry of closings_
  };
  struct Set {
    std::vector<NodeIndex> nodes;  // those with bytes, calls or an end; ascending
    bool accepting = false, free = false;
    std::vector<Step> steps;  // by byte; empty until needed
    std::optional<std::array<std::uint64_t, 4>> following;
  };
  struct Hash {
    std::size_t operator()(const std::vector<std::uint32_t>& words) const;
  };
  template <class Value>
  using Words = std::unordered_map<std::vector<std::uint32_t>, Value, Hash>;

  SetIndex set_of(std::vector<NodeIndex> nodes);
  Step find_step(SetIndex set, std::uint8_t byte);
  const Step& step_of(SetIndex set, std::uint8_t byte);
  SetIndex after_rules(SetIndex set, std::uint32_t closing);

  const ByteAutomaton automaton_;
  std::vector<Set> sets_;
  Words<SetIndex> set_numbers_;
  std::vector<std::vector<RuleIndex>> closings_;  // rules that one byte closes
  Words<std::uint32_t> closing_numbers_;
  std::unordered_map<std::uint64_t, SetIndex> returns_;  // by set * 2^32 + closing
  std::vector<Place> places_;
  std::unordered_map<std::uint64_t, PlaceIndex> place_numbers_;
  std::vector<std::uint32_t> seen_;  // by node: the last closure that met it
  std::uint32_t closure_ = 0;
  SetIndex start_ = 0;
};

}  // namespace yamata
