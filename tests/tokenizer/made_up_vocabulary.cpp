#include "tests/tokenizer/made_up_vocabulary.hpp"

#include <algorithm>
#include <string_view>

#include "tests/gguf/support.hpp"

namespace yamata::tokenizer_test {
namespace {

using gguf_test::Writer;

constexpr std::int32_t kNormal = 1, kControl = 3, kByte = 6;

/// Well mixed bits of a number (SplitMix64).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

std::string utf8(std::uint32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

/// Bytes that occur in the tests' texts: ASCII, bytes that continue a character, and those that begin one of a script with tests.
std::vector<std::uint8_t> used_bytes() {
  std::vector<std::uint8_t> bytes;
  constexpr std::string_view kSigns = " \t\n\r'\"!.,/()_-$+<=>^`|~[]:";
  for (int byte = 0; byte < 0xC0; ++byte) {
    const bool word = (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
    if (word || byte >= 0x80 || kSigns.find(static_cast<char>(byte)) != std::string_view::npos)
      bytes.push_back(static_cast<std::uint8_t>(byte));
  }
  for (const int byte : {0xC2, 0xC3, 0xC4, 0xC5, 0xC7, 0xCC, 0xCE, 0xCF, 0xD0, 0xD5, 0xD7, 0xD8, 0xD9,
                         0xE0, 0xE1, 0xE2, 0xE3, 0xE4, 0xE5, 0xE6, 0xEA, 0xEC, 0xEE, 0xEF, 0xF0})
    bytes.push_back(static_cast<std::uint8_t>(byte));
  return bytes;
}

/// Token texts, their types, and merges as the file writes them.
struct Vocabulary {
  std::vector<std::string> texts;
  std::vector<std::int32_t> kinds;
  std::vector<std::string> merges;
  void add(const std::string& text, std::int32_t kind) { texts.push_back(text), kinds.push_back(kind); }
};

Vocabulary of_bytes() {
  Vocabulary made;
  const auto bytes = byte_texts();
  for (const std::string& text : bytes) made.add(text, kNormal);
  for (const auto& [left, right] : merged_pairs()) {
    made.add(bytes[left] + bytes[right], kNormal);
    made.merges.push_back(bytes[left] + " " + bytes[right]);
  }
  made.add(bytes[' '] + "whole", kNormal);  // no merges lead to it
  made.add("<s>", kControl);
  return made;
}

Vocabulary of_characters() {
  Vocabulary made;
  constexpr const char* kDigits = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte) made.add(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", kByte);
  for (std::size_t lines = 1; lines <= 16; ++lines) made.add(std::string(lines, '\n'), kNormal);
  std::vector<std::string> characters = {"\xE2\x96\x81", "\xC3\xA9", "\xD0\x96", "\xE6\xBC\xA2", "\xE5\xAD\x97", "\xF0\x9F\x98\x80"};
  for (char c = '!'; c <= 'z'; ++c) characters.emplace_back(1, c);
  for (const std::string& character : characters) made.add(character, kNormal);
  std::vector<std::pair<std::uint64_t, std::string>> ranked;
  for (std::size_t l = 0; l < characters.size(); ++l) {
    for (std::size_t r = 0; r < characters.size(); ++r) ranked.emplace_back(mixed(l << 8 | r), characters[l] + " " + characters[r]);
  }
  std::sort(ranked.begin(), ranked.end());
  for (const auto& [rank, merge] : ranked) {
    made.merges.push_back(merge);
    const std::size_t space = merge.find(' ');
    made.add(merge.substr(0, space) + merge.substr(space + 1), kNormal);
  }
  made.add("<bos>", kControl);
  return made;
}

}  // namespace

std::array<std::string, 256> byte_texts() {
  std::array<std::string, 256> texts;
  std::uint32_t next = 0x100;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    texts[byte] = utf8(printable ? byte : next++);
  }
  return texts;
}

const std::vector<std::pair<std::uint8_t, std::uint8_t>>& merged_pairs() {
  static const auto pairs = [] {
    std::vector<std::pair<std::uint8_t, std::uint8_t>> all;
    for (const std::uint8_t left : used_bytes()) {
      for (const std::uint8_t right : used_bytes()) all.emplace_back(left, right);
    }
    const auto rank = [](const auto& pair) { return mixed(std::uint64_t{pair.first} << 8 | pair.second); };
    std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    return all;
  }();
  return pairs;
}

std::string made_up_model(const std::string& pre, bool raw) {
  constexpr std::uint64_t kDim = 32, kInner = 64;
  constexpr std::uint32_t kF32Tensor = 0, kF16Tensor = 1;
  const Vocabulary made = raw ? of_characters() : of_bytes();
  const std::uint64_t size = made.texts.size();
  const auto u32 = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  Writer writer;
  writer.string("general.architecture", "llama").scalar<std::uint32_t>("llama.context_length", gguf_test::kU32, 64);
  writer.scalar("llama.embedding_length", gguf_test::kU32, u32(kDim)).scalar<std::uint32_t>("llama.block_count", gguf_test::kU32, 1);
  writer.scalar("llama.feed_forward_length", gguf_test::kU32, u32(kInner));
  writer.scalar<std::uint32_t>("llama.attention.head_count", gguf_test::kU32, 1);
  writer.scalar<float>("llama.attention.layer_norm_rms_epsilon", gguf_test::kF32, 1e-5f);
  writer.string("tokenizer.ggml.model", pre == "gemma4" ? "gemma4" : "gpt2").string("tokenizer.ggml.pre", pre);
  writer.strings("tokenizer.ggml.tokens", made.texts).strings("tokenizer.ggml.merges", made.merges);
  writer.array("tokenizer.ggml.token_type", gguf_test::kI32, made.kinds);
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"}) writer.scalar(key, gguf_test::kU32, u32(size - 1));
  writer.tensor("token_embd.weight", {kDim, size}, kF16Tensor, kDim * size * 2);
  for (const char* norm : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"})
    writer.tensor(norm, {kDim}, kF32Tensor, kDim * 4);
  for (const char* part : {"q", "k", "v", "output"})
    writer.tensor(std::string("blk.0.attn_") + part + ".weight", {kDim, kDim}, kF16Tensor, kDim * kDim * 2);
  for (const char* part : {"gate", "up"})
    writer.tensor(std::string("blk.0.ffn_") + part + ".weight", {kDim, kInner}, kF16Tensor, kDim * kInner * 2);
  writer.tensor("blk.0.ffn_down.weight", {kInner, kDim}, kF16Tensor, kDim * kInner * 2);
  return writer.finish();
}

}  // namespace yamata::tokenizer_test
