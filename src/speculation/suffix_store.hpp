#pragma once
// The file format of remembered outputs.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yamata {

/// Texts as token ids, the oldest first, and a hash of their vocabulary.
struct SuffixStore {
  std::uint64_t vocabulary = 0;  ///< hash_vocabulary of the model's
  std::vector<std::vector<std::int32_t>> texts;
};

/// The first bytes of every store.
inline constexpr std::string_view kSuffixStoreBegins = "yamata suffixes 1\n";

/// A hash that identifies a vocabulary, over the text of every token in the order of ids.
std::uint64_t hash_vocabulary(std::span<const std::string> texts);

/// Magic, hash of all that follows, vocabulary, number of texts, and of each its length and its ids; all numbers little-endian.
std::string encode(const SuffixStore& store);
/// Nothing if the bytes are not complete and as written by encode, or if an id is outside a vocabulary of `tokens`. Zero bytes are an empty
/// store.
std::optional<SuffixStore> decode_suffix_store(std::string_view bytes, std::int32_t tokens);

}  // namespace yamata
