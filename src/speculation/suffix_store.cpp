#include "src/speculation/suffix_store.hpp"

#include <algorithm>
#include <concepts>

namespace yamata {
namespace {

constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325u, kFnvPrime = 0x100000001b3u;

std::uint64_t hash(std::string_view bytes, std::uint64_t before = kFnvBasis) {
  for (const char c : bytes) before = (before ^ static_cast<unsigned char>(c)) * kFnvPrime;
  return before;
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
  std::uint64_t all = kFnvBasis;
  for (const std::string& text : texts) all = hash(std::string_view(text.c_str(), text.size() + 1), all);
  return all;
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
  put(bytes, hash(body));
  return bytes + body;
}

std::optional<SuffixStore> decode_suffix_store(std::string_view bytes, std::int32_t tokens) {
  SuffixStore store;
  if (bytes.empty()) return store;
  if (!bytes.starts_with(kSuffixStoreBegins)) return std::nullopt;
  bytes.remove_prefix(kSuffixStoreBegins.size());
  if (bytes.size() < 20) return std::nullopt;
  const auto expected = take<std::uint64_t>(bytes);
  if (hash(bytes) != expected) return std::nullopt;
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
