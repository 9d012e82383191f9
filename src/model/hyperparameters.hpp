#pragma once
// The numbers that shape a model, read from GGUF metadata.
#include <cstdint>
#include <string>

#include "src/gguf/gguf.hpp"
#include "src/model/family.hpp"

namespace yamata {

/// Tokens of context where a user names none, at most what the model was trained for.
inline constexpr int kDefaultContext = 4096;

struct RopeScaling {
  enum class Kind { kNone, kLinear, kYarn } kind = Kind::kNone;
  float factor = 1.0f;
  float attention_factor = 1.0f;
  std::int64_t original_context = 0;
};

struct Hyperparameters {
  const Family* family = nullptr;
  std::int64_t layers = 0, dim = 0, ffn = 0, heads = 0, kv_heads = 0, head_dim = 0, rotary_dim = 0;
  std::int64_t vocabulary = 0, context = 0;
  float epsilon = 0;
  LayerSpec layer;  ///< of every layer, as the metadata say
  RopeScaling rope;

  /// Throws ModelError for an architecture or feature Yamata lacks, by name, and for numbers that do not fit together.
  static Hyperparameters read(const gguf::File& file);
};

/// What to know of a context of `tokens`; empty where the model was trained for as many.
std::string beyond_training(const Hyperparameters& h, std::int64_t tokens);

/// Half-open range of layers that a stage holds.
struct LayerRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

}  // namespace yamata
