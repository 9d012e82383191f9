#include "src/grammar/numbers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

namespace yamata {
namespace {

constexpr int kIntegerDigits = 18, kWholeDigits = 14, kSureDigits = 15;  // 15 digits differ as doubles if they differ
constexpr std::size_t kMostDigits = 400;                                 // of a bound; the largest double has 309

/// What is known of a number while its digits are read: whether these are, so far, those of the bounds.
struct Tight {
  bool least = false, most = false;
  std::size_t index() const { return (least ? 1u : 0u) + (most ? 2u : 0u); }
};
constexpr std::array<Tight, 4> kTight{{{false, false}, {true, false}, {false, true}, {true, true}}};
using Layer = std::array<std::optional<NodeIndex>, 4>;  // by Tight::index

/// Adds numbers that are not negative, between two bounds.
class MagnitudeBuilder {
 public:
  MagnitudeBuilder(ByteAutomaton& automaton, const NumberRange& range, bool integer, NodeIndex to)
      : automaton_(automaton), range_(range), integer_(integer), to_(to) {}

  void add(NodeIndex from) {
    const int most_digits = integer_ ? kIntegerDigits : kWholeDigits;
    const int least = range_.least ? static_cast<int>(range_.least->value.whole.size()) : 0;
    const int most = range_.most ? static_cast<int>(range_.most->value.whole.size()) : most_digits + 1;
    add_loose(from, std::max(1, least + 1), std::min(most_digits, most - 1));
    for (const int digits : {least, most}) {
      if (digits >= 1 && digits <= most_digits && digits >= least && digits <= most)
        add_tight(from, digits, digits == least, digits == most);
      if (least == most) break;
    }
  }

 private:
  /// All numbers with `first` to `last` digits before the point.
  void add_loose(NodeIndex from, int first, int last) {
    if (first > last) return;
    if (first == 1) {
      const NodeIndex zero = automaton_.add_node();
      automaton_.add_byte(from, '0', zero);
      end_whole(zero, {}, 1);
    }
    for (int digits = 1; digits <= last; ++digits) {
      const NodeIndex next = automaton_.add_node();
      automaton_.add_bytes(from, digits == 1 ? '1' : '0', '9', next);
      if (digits >= first) end_whole(next, {}, digits);
      from = next;
    }
  }

  /// Numbers with as many digits before the point as the bounds that are tight.
  void add_tight(NodeIndex from, int digits, bool least, bool most) {
    Layer layer{};
    layer[Tight{least, most}.index()] = from;
    for (int at = 0; at < digits; ++at) {
      const char first = at == 0 && digits > 1 ? '1' : '0';
      layer = next_layer(layer, first, digit(range_.least, false, at), digit(range_.most, false, at));
    }
    for (const Tight tight : kTight) {
      if (layer[tight.index()]) end_whole(*layer[tight.index()], tight, digits);
    }
  }

  static char digit(const std::optional<Bound>& bound, bool after_point, int at) {
    if (!bound) return '0';
    const std::string& digits = after_point ? bound->value.fraction : bound->value.whole;
    return static_cast<std::size_t>(at) < digits.size() ? digits[static_cast<std::size_t>(at)] : '0';
  }

  /// Reads a digit from `first` on; `least`, `most`: those of the bounds.
  Layer next_layer(const Layer& layer, char first, char least, char most) {
    Layer next{};
    for (const Tight tight : kTight) {
      if (!layer[tight.index()]) continue;
      for (char d = first; d <= '9'; ++d) {
        if ((tight.least && d < least) || (tight.most && d > most)) continue;
        const Tight after{tight.least && d == least, tight.most && d == most};
        std::optional<NodeIndex>& node = next[after.index()];
        if (!node) node = automaton_.add_node();
        automaton_.add_byte(*layer[tight.index()], d, *node);
      }
    }
    return next;
  }

  /// Whether the number may end after the digits that are those of the bounds, the first `read` after the point among them.
  bool may_end(Tight tight, std::size_t read) const {
    if (tight.least && (range_.least->exclusive || range_.least->value.fraction.size() > read)) return false;
    return !tight.most || !range_.most->exclusive || range_.most->value.fraction.size() > read;
  }

  void end_whole(NodeIndex node, Tight tight, int digits) {
    if (may_end(tight, 0)) automaton_.add_empty(node, to_);
    if (integer_) return;
    Layer layer{};
    layer[tight.index()] = automaton_.add_node();
    automaton_.add_byte(node, '.', *layer[tight.index()]);
    for (int at = 0; at < std::max(1, kSureDigits - digits); ++at) {
      layer = next_layer(layer, '0', digit(range_.least, true, at), digit(range_.most, true, at));
      for (const Tight after : kTight) {
        if (layer[after.index()] && may_end(after, static_cast<std::size_t>(at) + 1)) automaton_.add_empty(*layer[after.index()], to_);
      }
    }
  }

  ByteAutomaton& automaton_;
  const NumberRange range_;
  const bool integer_;
  const NodeIndex to_;
};

/// The bound of the magnitude; nothing: no bound.
std::optional<Bound> magnitude(const std::optional<Bound>& bound) {
  if (!bound) return std::nullopt;
  Bound positive = *bound;
  positive.value.negative = false;
  return positive;
}

bool below_zero(const std::optional<Bound>& bound) { return bound && bound->value.negative && !bound->value.zero(); }

void add_signed(ByteAutomaton& automaton, NodeIndex from, const NumberRange& range, bool integer, NodeIndex to) {
  if (!below_zero(range.most))
    MagnitudeBuilder(automaton, {below_zero(range.least) ? std::nullopt : magnitude(range.least), range.most}, integer, to).add(from);
  if (range.least && !below_zero(range.least)) return;
  const NodeIndex negative = automaton.add_node();
  automaton.add_byte(from, '-', negative);
  const Bound above_zero{Decimal{}, true};
  MagnitudeBuilder(automaton, {below_zero(range.most) ? magnitude(range.most) : above_zero, magnitude(range.least)}, integer, to)
      .add(negative);
}

/// Reads e, a sign and one or two digits.
void add_exponent(ByteAutomaton& automaton, NodeIndex from, NodeIndex to) {
  const NodeIndex sign = automaton.add_node(), first = automaton.add_node(), second = automaton.add_node();
  for (const char e : {'e', 'E'}) automaton.add_byte(from, e, sign);
  for (const char s : {'+', '-'}) automaton.add_byte(sign, s, first);
  automaton.add_empty(sign, first);
  automaton.add_bytes(first, '0', '9', second);
  automaton.add_bytes(second, '0', '9', to);
  automaton.add_empty(second, to);
}

}  // namespace

std::optional<Decimal> read_decimal(std::string_view text) {
  Decimal decimal;
  if (text.starts_with('-')) {
    decimal.negative = true;
    text.remove_prefix(1);
  }
  const std::size_t e = text.find_first_of("eE");
  long exponent = 0;
  if (e != std::string_view::npos) exponent = std::strtol(std::string(text.substr(e + 1)).c_str(), nullptr, 10);
  const std::string_view mantissa = text.substr(0, e);
  const std::size_t point = mantissa.find('.');
  std::string digits(mantissa.substr(0, point));
  long whole = static_cast<long>(digits.size()) + exponent;
  if (point != std::string_view::npos) digits += mantissa.substr(point + 1);
  if (std::labs(whole) > static_cast<long>(kMostDigits) || digits.size() > kMostDigits) return std::nullopt;
  if (whole <= 0) {
    digits.insert(0, static_cast<std::size_t>(1 - whole), '0');
    whole = 1;
  }
  if (digits.size() < static_cast<std::size_t>(whole)) digits.resize(static_cast<std::size_t>(whole), '0');
  decimal.whole = digits.substr(0, static_cast<std::size_t>(whole));
  decimal.fraction = digits.substr(static_cast<std::size_t>(whole));
  decimal.whole.erase(0, std::min(decimal.whole.find_first_not_of('0'), decimal.whole.size() - 1));
  decimal.fraction.erase(decimal.fraction.find_last_not_of('0') + 1);
  return decimal;
}

void add_integer(ByteAutomaton& automaton, NodeIndex from, const NumberRange& range, NodeIndex to) {
  add_signed(automaton, from, range, true, to);
}

void add_number(ByteAutomaton& automaton, NodeIndex from, const NumberRange& range, NodeIndex to) {
  if (range.least || range.most) return add_signed(automaton, from, range, false, to);
  const NodeIndex mantissa = automaton.add_node();
  add_signed(automaton, from, range, false, mantissa);
  automaton.add_empty(mantissa, to);
  add_exponent(automaton, mantissa, to);
}

}  // namespace yamata
