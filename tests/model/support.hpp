#pragma once
// GGUF files in memory, for tests that need a particular error.
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/gguf/gguf.hpp"

namespace yamata {
namespace test {

/// Metadata, and F32 tensors of zeros, which can be changed and then written.
struct ModelFile {
  std::map<std::string, gguf::Value> metadata;
  std::map<std::string, std::vector<std::uint64_t>> tensors;  ///< name -> shape, fastest dimension first

  void set(const std::string& key, std::uint64_t value) { metadata[key] = value; }
  void set(const std::string& key, double value) { metadata[key] = value; }
  void set(const std::string& key, const char* value) { metadata[key] = std::string(value); }

  /// The file, read back; it refers to this object's memory.
  gguf::File read() {
    bytes_.clear();
    put("GGUF", 4);
    number(std::uint32_t{3});
    number(std::uint64_t{tensors.size()});
    number(std::uint64_t{metadata.size()});
    for (const auto& [key, value] : metadata) {
      text(key);
      std::visit([this](const auto& v) { number(type(v)), write(v); }, value);
    }
    std::uint64_t offset = 0;
    for (const auto& [name, shape] : tensors) {
      text(name);
      number(static_cast<std::uint32_t>(shape.size()));
      std::uint64_t bytes = 4;
      for (const std::uint64_t extent : shape) number(extent), bytes *= extent;
      number(std::uint32_t{0});  // F32
      number(offset);
      offset += (bytes + 31) / 32 * 32;
    }
    bytes_.resize((bytes_.size() + 31) / 32 * 32 + offset);
    return gguf::File::parse(bytes_, "test.gguf");
  }

 private:
  static std::uint32_t type(std::uint64_t) { return 10; }
  static std::uint32_t type(std::int64_t) { return 11; }
  static std::uint32_t type(double) { return 12; }
  static std::uint32_t type(bool) { return 7; }
  static std::uint32_t type(const std::string&) { return 8; }
  template <class T>
  static std::uint32_t type(const std::vector<T>&) {
    return 9;
  }

  void put(const void* p, std::size_t n) {
    const auto* bytes = static_cast<const std::byte*>(p);
    bytes_.insert(bytes_.end(), bytes, bytes + n);
  }
  template <class T>
  void number(T value) {
    put(&value, sizeof(value));
  }
  void text(const std::string& value) {
    number(std::uint64_t{value.size()});
    put(value.data(), value.size());
  }
  template <class T>
  void write(T value) {
    number(value);
  }
  void write(const std::string& value) { text(value); }
  template <class T>
  void write(const std::vector<T>& values) {
    number(type(T{}));
    number(std::uint64_t{values.size()});
    for (const T& value : values) write(value);
  }

  std::vector<std::byte> bytes_;
};

/// A small model of the Llama family without its layers' tensors: dim 64, 4 heads of 16, feed-forward 96, 10 tokens, 2 layers.
inline ModelFile small_llama() {
  ModelFile file;
  file.set("general.architecture", "llama");
  file.set("llama.block_count", std::uint64_t{2});
  file.set("llama.embedding_length", std::uint64_t{64});
  file.set("llama.feed_forward_length", std::uint64_t{96});
  file.set("llama.attention.head_count", std::uint64_t{4});
  file.set("llama.context_length", std::uint64_t{512});
  file.set("llama.attention.layer_norm_rms_epsilon", 1e-5);
  file.tensors["token_embd.weight"] = {64, 10};
  return file;
}

/// The same of another family.
inline ModelFile small_model(const std::string& family) {
  ModelFile file = small_llama();
  std::map<std::string, gguf::Value> metadata;
  for (auto& [key, value] : file.metadata) metadata[key.starts_with("llama.") ? family + key.substr(5) : key] = value;
  file.metadata = std::move(metadata);
  file.set("general.architecture", family.c_str());
  return file;
}

}  // namespace test

using test::ModelFile;
using test::small_llama;
using test::small_model;

}  // namespace yamata
