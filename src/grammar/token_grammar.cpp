#include "src/grammar/token_grammar.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "node/error.hpp"
#include "src/sampling/best_logits.hpp"

namespace yamata {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr std::size_t kMaskBytes = 32 << 20;  // of masks that are kept

void set_bit(std::vector<std::uint64_t>& mask, std::int32_t token) {
  mask[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (static_cast<std::size_t>(token) % 64);
}

}  // namespace

TokenGrammar::TokenGrammar(std::shared_ptr<const GrammarVocabulary> vocabulary, ByteAutomaton automaton)
    : vocabulary_(std::move(vocabulary)), reader_(std::move(automaton)), start_(reader_.keep(reader_.start())) {}

/// Moves over a token that does not end the text.
bool TokenGrammar::read(GrammarReader::Place& place, const GrammarToken& token) {
  if (token.bytes.empty() || (token.control && !reader_.free(place))) return false;
  return std::ranges::all_of(token.bytes, [&](char byte) { return reader_.step(place, static_cast<std::uint8_t>(byte)); });
}

TokenGrammar::State TokenGrammar::after(State state, std::int32_t token) {
  if (state == kForbidden || state == kEnded || !vocabulary_->contains(token)) return kForbidden;
  if (vocabulary_->token(token).ends) return accepting(state) ? kEnded : kForbidden;
  GrammarReader::Place place = reader_.at(state);
  return read(place, vocabulary_->token(token)) ? reader_.keep(place) : kForbidden;
}

TokenGrammar::State TokenGrammar::after_guess(State state, std::int32_t token) {
  try {
    return after(state, token);
  } catch (const UsageError&) {
    return kForbidden;  // the text fails when it comes here
  }
}

TokenGrammar::State TokenGrammar::after_all(std::span<const std::int32_t> tokens) {
  State state = start_;
  for (const std::int32_t token : tokens) state = after_guess(state, token);
  return state;
}

bool TokenGrammar::allows(State state, std::int32_t token) {
  if (state == kForbidden || state == kEnded || !vocabulary_->contains(token)) return false;
  if (vocabulary_->token(token).ends) return accepting(state);
  GrammarReader::Place place = reader_.at(state);
  return read(place, vocabulary_->token(token));
}

bool TokenGrammar::accepting(State state) const { return state == kEnded || (state != kForbidden && reader_.accepting(reader_.at(state))); }

bool TokenGrammar::complete(State state) {
  if (state == kEnded) return true;
  return accepting(state) && std::ranges::all_of(reader_.following(reader_.at(state)), [](std::uint64_t word) { return word == 0; });
}

/// Walks over the trie and leaves out what is below a byte that may not follow.
std::vector<std::uint64_t> TokenGrammar::find_mask(State state) {
  std::vector<std::uint64_t> mask((vocabulary_->size() + 63) / 64);
  if (state == kForbidden || state == kEnded) return mask;
  const auto nodes = vocabulary_->nodes();
  std::vector<GrammarReader::Place> places(vocabulary_->deepest() + 1);
  places[0] = reader_.at(state);
  for (std::size_t i = 0; i < nodes.size();) {
    GrammarReader::Place place = places[nodes[i].depth - 1u];
    if (!reader_.step(place, nodes[i].byte)) {
      i = nodes[i].end;
      continue;
    }
    places[nodes[i].depth] = place;
    for (const std::int32_t token : vocabulary_->tokens_at(i)) set_bit(mask, token);
    ++i;
  }
  if (accepting(state))
    for (const std::int32_t token : vocabulary_->ends()) set_bit(mask, token);
  if (reader_.free(places[0])) {
    for (const std::int32_t token : vocabulary_->controls()) {
      if (allows(state, token)) set_bit(mask, token);
    }
  }
  return mask;
}

const std::vector<std::uint64_t>& TokenGrammar::mask(State state) {
  if (const auto found = masks_.find(state); found != masks_.end()) return found->second;
  if ((masks_.size() + 1) * (vocabulary_->size() / 8) > kMaskBytes) masks_.clear();
  return masks_.emplace(state, find_mask(state)).first->second;
}

/// Keeps only the best logits, if among a few of the highest there are `read` that may follow. False otherwise; nothing is changed.
bool TokenGrammar::keep_best(State state, std::span<float> logits, std::size_t read) {
  constexpr std::size_t kSpare = 16;
  const std::size_t count = std::min(logits.size(), 2 * read + kSpare);
  const BestLogits best = best_logits(logits, logits.size(), count);
  std::vector<std::pair<std::int32_t, float>> kept;
  for (std::size_t i = 0; i < best.tokens.size() && kept.size() < read; ++i) {
    if (allows(state, best.tokens[i])) kept.emplace_back(best.tokens[i], best.values[i]);
  }
  if (kept.size() < read) return false;
  std::ranges::fill(logits, kNever);
  for (const auto& [token, value] : kept) logits[static_cast<std::size_t>(token)] = value;
  return true;
}

void TokenGrammar::restrict(State state, std::span<float> logits, std::size_t read) {
  if (read > 0 && keep_best(state, logits, read)) return;
  const std::vector<std::uint64_t>& allowed = mask(state);
  if (std::ranges::all_of(allowed, [](std::uint64_t word) { return word == 0; }))
    throw UsageError("no token of the vocabulary continues the text as the schema demands; change the schema");
  for (std::size_t begin = 0; begin < logits.size(); begin += 64) {
    const std::uint64_t word = begin / 64 < allowed.size() ? allowed[begin / 64] : 0;
    if (word == ~std::uint64_t{0}) continue;
    const std::size_t end = std::min(logits.size(), begin + 64);
    for (std::size_t i = begin; i < end; ++i) {
      if ((word >> (i - begin) & 1) == 0) logits[i] = kNever;
    }
  }
}

}  // namespace yamata
