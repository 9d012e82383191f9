#include "tests/gguf/support.hpp"

#include <fstream>

namespace yamata::gguf_test {

Bytes& Bytes::text(std::string_view text) { return put<std::uint64_t>(text.size()).raw(text); }

Bytes& Bytes::raw(std::string_view bytes) {
  bytes_.append(bytes);
  return *this;
}

Writer& Writer::strings(std::string_view key, const std::vector<std::string>& values) {
  Bytes bytes;
  bytes.put<std::uint32_t>(kString).put<std::uint64_t>(values.size());
  for (const std::string& value : values) bytes.text(value);
  return pair(key, kArray, bytes.str());
}

Writer& Writer::pair(std::string_view key, std::uint32_t type, std::string_view value) {
  metadata_.text(key).put(type).raw(value);
  ++pairs_;
  return *this;
}

Writer& Writer::tensor(const std::string& name, std::vector<std::uint64_t> shape, std::uint32_t type, std::uint64_t bytes) {
  const std::uint64_t offset = (data_bytes_ + alignment_ - 1) / alignment_ * alignment_;
  data_bytes_ = offset + bytes;
  return entry({name, std::move(shape), type, offset});
}

Writer& Writer::entry(const Entry& entry) {
  table_.text(entry.name).put(static_cast<std::uint32_t>(entry.shape.size()));
  for (const std::uint64_t extent : entry.shape) table_.put(extent);
  table_.put(entry.type).put(entry.offset);
  ++tensors_;
  return *this;
}

Writer& Writer::counts(std::uint64_t tensors, std::uint64_t pairs) {
  tensors_ = tensors;
  pairs_ = pairs;
  return *this;
}

std::string Writer::finish() const {
  Bytes bytes;
  bytes.raw("GGUF").put(version_).put(tensors_).put(pairs_).raw(metadata_.str()).raw(table_.str());
  std::string file = bytes.str();
  if (data_bytes_ == 0) return file;
  file.resize((file.size() + alignment_ - 1) / alignment_ * alignment_);
  for (std::uint64_t i = 0; i < data_bytes_; ++i) file += static_cast<char>(i % 251);
  return file;
}

namespace {

Writer llama(std::uint32_t version) {
  return Writer(version)
      .string("general.architecture", "llama")
      .scalar<std::uint32_t>("llama.context_length", kU32, 64)
      .scalar<std::uint32_t>("llama.embedding_length", kU32, 32)
      .scalar<std::uint32_t>("llama.block_count", kU32, 1)
      .scalar<std::uint32_t>("llama.feed_forward_length", kU32, 64)
      .scalar<std::uint32_t>("llama.attention.head_count", kU32, 2)
      .scalar<float>("llama.attention.layer_norm_rms_epsilon", kF32, 1e-5f);
}

}  // namespace

Writer sentencepiece_model() {
  return llama(3)
      .string("tokenizer.ggml.model", "llama")
      .strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "<0x41>", "\xe2\x96\x81", "a", "b", "ab"})
      .array<float>("tokenizer.ggml.scores", kF32, {0, 0, 0, 0, -1, -2, -3, -4})
      .array<std::int32_t>("tokenizer.ggml.token_type", kI32, {2, 3, 3, 6, 1, 1, 1, 4})
      .scalar<std::uint32_t>("tokenizer.ggml.bos_token_id", kU32, 1)
      .tensor("token_embd.weight", {32, 8}, 8, 8 * 34);
}

Writer bpe_model() {
  return llama(2)
      .string("tokenizer.ggml.model", "gpt2")
      .string("tokenizer.ggml.pre", "llama-bpe")
      .strings("tokenizer.ggml.tokens", {"a", "b", "l", "o", "lo", "<|eot_id|>"})
      .strings("tokenizer.ggml.merges", {"l o", "a b"})
      .scalar<std::uint32_t>("tokenizer.ggml.eos_token_id", kU32, 5)
      .tensor("token_embd.weight", {32, 6}, 1, 6 * 64);
}

std::vector<std::string> samples() {
  Writer metadata;
  metadata.scalar<std::uint8_t>("u8", kU8, 1).scalar<std::int8_t>("i8", kI8, -1).scalar<std::uint16_t>("u16", kU16, 2);
  metadata.scalar<std::int16_t>("i16", kI16, -2).scalar<std::uint64_t>("u64", kU64, 3).scalar<std::int64_t>("i64", kI64, -3);
  metadata.scalar<double>("f64", kF64, 0.5).scalar<std::uint8_t>("bool", kBool, 1);
  metadata.array<std::uint8_t>("bools", kBool, {0, 1}).array<std::uint16_t>("u16s", kU16, {1, 2}).array<double>("f64s", kF64, {1});
  metadata.tensor("k", {256}, 12, 144).tensor("f", {2, 3, 1, 2}, 0, 48);
  Writer aligned;
  aligned.alignment(64).scalar<std::uint32_t>("general.alignment", kU32, 64).tensor("a", {1}, 0, 4).tensor("b", {2}, 30, 4);
  return {sentencepiece_model().finish(), bpe_model().finish(), metadata.finish(), aligned.finish(), Writer().finish()};
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace yamata::gguf_test
