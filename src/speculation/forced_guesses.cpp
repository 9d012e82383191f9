#include "src/speculation/forced_guesses.hpp"

#include <algorithm>
#include <cctype>

#include "node/error.hpp"
#include "src/speculation/policy.hpp"

namespace yamata {
namespace {

constexpr std::size_t kMostBytes = 128;    // of a continuation
constexpr std::size_t kContextTokens = 4;  // before a continuation, for the tokenizer

// How likely a guess is before any is known. Each kind is calibrated for itself, so their bins of Calibration differ.
constexpr float kSure = 0.99f;  // punctuation, white space as before
constexpr float kWord = 0.95f;  // may be divided otherwise
constexpr float kLast = 0.7f;   // may be longer than what is forced
constexpr float kStyle = 0.3f;  // what follows an opening bracket at once, which may also be a new line

bool is_opening(char byte) { return byte == '{' || byte == '['; }
bool is_word(std::string_view bytes) {
  return bytes.size() > 1 &&
         std::ranges::all_of(bytes.substr(1), [](char byte) { return std::isalnum(static_cast<unsigned char>(byte)) != 0; });
}

/// Whether bytes [begin, begin + count) of `forced` decide that no white space follows an opening bracket.
bool decides_style(std::string_view before, std::string_view forced, std::size_t begin, std::size_t count) {
  constexpr std::string_view kBlanks = " \n\t";
  const std::size_t written = before.find_last_not_of(kBlanks);
  for (std::size_t i = begin; i < std::min(begin + count, forced.size()); ++i) {
    if (kBlanks.find(forced[i]) != std::string_view::npos) continue;
    const bool opened = i > 0 ? is_opening(forced[i - 1]) : written != std::string_view::npos && is_opening(before[written]);
    if (opened) return true;
  }
  return false;
}

}  // namespace

ForcedGuesses::ForcedGuesses(int index, TokenGrammar& grammar, std::span<const std::int32_t> kept)
    : GuessSource(index), grammar_(grammar), text_(grammar), state_(grammar.start()) {
  for (const std::int32_t token : kept) {
    const TokenGrammar::State before = state_;
    state_ = grammar_.after_guess(before, token);
    if (state_ != TokenGrammar::kForbidden) text_.read(before, grammar_.vocabulary().token(token).bytes);
  }
}

/// The bytes of the text's last tokens, from the last control token on.
std::string ForcedGuesses::bytes_before(std::span<const std::int32_t> text) const {
  const GrammarVocabulary& vocabulary = grammar_.vocabulary();
  std::string bytes;
  for (std::size_t n = 1; n <= std::min(kContextTokens, text.size()); ++n) {
    const std::int32_t token = text[text.size() - n];
    if (!vocabulary.contains(token) || vocabulary.token(token).control || vocabulary.token(token).ends) break;
    bytes.insert(0, vocabulary.token(token).bytes);
  }
  return bytes;
}

bool ForcedGuesses::guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) {
  try {
    return add(tree, text, demand);
  } catch (const UsageError&) {
    return false;  // too many states: the text fails when it comes there
  }
}

bool ForcedGuesses::add(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) {
  const GrammarVocabulary& vocabulary = grammar_.vocabulary();
  ForcedText end = text_;
  std::string before = bytes_before(text);
  NodeId node = tree.root().id;
  for (auto children = ranked_children(tree, node); !children.empty(); children = ranked_children(tree, node)) {
    const TreeNode& child = tree.at(children.front());
    if (child.forbidden || child.path_probability <= 0) break;
    end.read(tree.at(node).state, vocabulary.token(child.token).bytes);
    before += vocabulary.token(child.token).bytes;
    node = child.id;
  }
  const std::string forced = end.continuation(tree.at(node).state, kMostBytes);
  if (forced.empty()) return false;
  const std::vector<std::int32_t> tokens = tokens_of_forced(vocabulary, before, forced);
  bool grown = false;
  std::size_t at = 0;
  for (std::size_t i = 0; i < tokens.size() && i < static_cast<std::size_t>(demand.most); ++i) {
    const std::string& bytes = vocabulary.token(tokens[i]).bytes;
    float probability = i + 1 == tokens.size() ? kLast : is_word(bytes) ? kWord : kSure;
    if (decides_style(before, forced, at, bytes.size())) probability = kStyle;
    at += bytes.size();
    node = calibration_.add(tree, node, tokens[i], probability);
    if (tree.at(node).forbidden) break;
    grown = true;
  }
  return grown;
}

void ForcedGuesses::learn(const TokenTree& tree, std::int32_t next) {
  GuessSource::learn(tree, next);
  const GrammarVocabulary& vocabulary = grammar_.vocabulary();
  if (vocabulary.contains(next)) text_.read(tree.root().state, vocabulary.token(next).bytes);
}

}  // namespace yamata
