#include "src/speculation/suffix_store.hpp"

#include <algorithm>
#include <concepts>

#include "node/fnv1a.hpp"

namespace yamata {
namespace {

std::uint64_t hash_of(std::string_view bytes) {
  Fnv1a hash;
  hash.add(bytes);
  return hash.value();
}

template <std::unsigned_integral T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i));
}

/// Takes a number off the front of `in`, which has that many bytes.
template <std::unsigned_integral T>
T take(std::string_view& in) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(static_cast<unsigned char>(in[i])) << (8 * i));
  in.remove_prefix(sizeof(T));
  return value;
}

}  // namespace

std::uint64_t hash_vocabulary(std::span<const std::string> texts) {
  Fnv1a all;
  for (const std::string& text : texts) all.add(std::string_view(text.c_str(), text.size() + 1));
  return all.value();
}

std::string encode(const SuffixStore& store) {
  std::string body;
  put(body, store.vocabulary);
  put(body, static_cast<std::uint32_t>(store.texts.size()));
  for (const auto& text : store.texts) {
    put(body, static_cast<std::uint32_t>(text.size()));
    for (const std::int32_t token : text) put(body, static_cast<std::uint32_t>(token));
  }
  std::string bytes(kSuffixStoreBegins);
  put(bytes, hash_of(body));
  return bytes + body;
}

std::optional<SuffixStore> decode_suffix_store(std::string_view bytes, std::int32_t tokens) {
  SuffixStore store;
  if (bytes.empty()) return store;
  if (!bytes.starts_with(kSuffixStoreBegins)) return std::nullopt;
  bytes.remove_prefix(kSuffixStoreBegins.size());
  if (bytes.size() < 20) return std::nullopt;
  const auto expected = take<std::uint64_t>(bytes);
  if (hash_of(bytes) != expected) return std::nullopt;
  store.vocabulary = take<std::uint64_t>(bytes);
  store.texts.resize(std::min<std::size_t>(take<std::uint32_t>(bytes), bytes.size() / 4 + 1));
  for (auto& text : store.texts) {
    if (bytes.size() < 4) return std::nullopt;
    text.resize(std::min<std::size_t>(take<std::uint32_t>(bytes), bytes.size() / 4 + 1));
    if (bytes.size() < 4 * text.size()) return std::nullopt;
    for (std::int32_t& token : text) {
      token = static_cast<std::int32_t>(take<std::uint32_t>(bytes));
      if (token < 0 || token >= tokens) return std::nullopt;
    }
  }
  if (!bytes.empty()) return std::nullopt;
  return store;
}

}  // namespace yamata
