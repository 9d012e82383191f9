#include "tests/families/model_writer.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <span>

#include "node/cpu/kernels/kernels.hpp"
#include "src/gguf/writer.hpp"
#include "tests/gguf/support.hpp"

namespace yamata::families_test {
namespace {

using gguf_test::Bytes;

/// splitmix64 (Steele et al., OOPSLA 2014), seeded with FNV-1a of a text.
class Random {
 public:
  explicit Random(std::string_view seed) {
    for (const char c : seed) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  }
  /// From -1 to 1, in steps of 2^-23.
  float uniform() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return static_cast<float>((z ^ (z >> 31)) >> 40) / 8388608.0f - 1.0f;
  }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ull;
};

/// Half the width of the interval that values are drawn from, and its middle.
struct Interval {
  float middle, half;
};

Interval interval(Like like, std::int64_t cols) {
  const auto unit =
      static_cast<float>(std::sqrt(3.0 / static_cast<double>(cols)));  // a uniform value has a third of its square as variance
  switch (like) {
    case Like::kMatrix:
      return {0, unit};
    case Like::kFaint:
    case Like::kFusion:
      return {0, 0.1f * unit};
    case Like::kQuiet:
      return {0, 0.22f * unit};
    case Like::kRouter:
      return {0, 2 * unit};
    case Like::kEmbedding:
      return {0, 1.75f};
    case Like::kOutput:
      return {0, 3 * unit};
    case Like::kNorm:
      return {1, 0.25f};
    case Like::kLoudNorm:
      return {40, 10.0f};
    case Like::kLaterNorm:
      return {9, 2.25f};
    case Like::kQuietNorm:
      return {0.2f, 0.05f};
    case Like::kBias:
      return {0, 0.25f};
    case Like::kTaps:
      return {0, 0.6f};
    case Like::kRate:
      return {-1, 0.9f};
  }
  return {0, 0};
}

constexpr std::int64_t kNoText = 3;              // unknown, begin and end
constexpr std::int64_t kNoWord = kNoText + 256;  // and all bytes, which need not be whole characters

/// A word as its token has it: a space and one character of its own, which merge at once.
std::string word(std::uint32_t id) {
  return std::string("\xe2\x96\x81\xe4") + static_cast<char>(0xb8 + id / 64) + static_cast<char>(0x80 + id % 64);
}

bool is_vector(Like like) {
  return like == Like::kNorm || like == Like::kLoudNorm || like == Like::kLaterNorm || like == Like::kQuietNorm || like == Like::kBias ||
         like == Like::kRouter || like == Like::kTaps || like == Like::kRate;
}

}  // namespace

ModelWriter::ModelWriter(std::string architecture) : architecture_(std::move(architecture)) {
  pair("general.architecture", Bytes().put<std::uint32_t>(gguf_test::kString).text(architecture_).str());
  vocabulary();
}

void ModelWriter::pair(const std::string& key, std::string_view type_and_value) { metadata_.emplace_back(key, type_and_value); }

ModelWriter& ModelWriter::count(const std::string& key, std::int64_t value) {
  pair(architecture_ + "." + key, Bytes().put<std::uint32_t>(gguf_test::kU32).put(static_cast<std::uint32_t>(value)).str());
  return *this;
}
template <class T>
ModelWriter& ModelWriter::list(const std::string& key, std::uint32_t type, const std::vector<T>& values) {
  Bytes bytes;
  bytes.put<std::uint32_t>(gguf_test::kArray).put<std::uint32_t>(type).template put<std::uint64_t>(values.size());
  for (const T value : values) bytes.put(value);
  pair(architecture_ + "." + key, bytes.str());
  return *this;
}
ModelWriter& ModelWriter::counts(const std::string& key, const std::vector<std::int32_t>& values) {
  return list(key, gguf_test::kI32, values);
}
ModelWriter& ModelWriter::wide_counts(const std::string& key, const std::vector<std::uint64_t>& values) {
  return list(key, gguf_test::kU64, values);
}
ModelWriter& ModelWriter::flags(const std::string& key, const std::vector<bool>& values) {
  Bytes list;
  list.put<std::uint32_t>(gguf_test::kArray).put<std::uint32_t>(gguf_test::kBool).put<std::uint64_t>(values.size());
  for (const bool value : values) list.put<std::uint8_t>(value);
  pair(architecture_ + "." + key, list.str());
  return *this;
}
ModelWriter& ModelWriter::real(const std::string& key, double value) {
  pair(architecture_ + "." + key, Bytes().put<std::uint32_t>(gguf_test::kF32).put(static_cast<float>(value)).str());
  return *this;
}
ModelWriter& ModelWriter::boolean(const std::string& key, bool value) {
  pair(architecture_ + "." + key, Bytes().put<std::uint32_t>(gguf_test::kBool).put<std::uint8_t>(value).str());
  return *this;
}
ModelWriter& ModelWriter::text(const std::string& key, const std::string& value) {
  pair(architecture_ + "." + key, Bytes().put<std::uint32_t>(gguf_test::kString).text(value).str());
  return *this;
}

/// SentencePiece: unknown, begin and end, all bytes, and words: U+4E00 + id each, behind a space.
void ModelWriter::vocabulary() {
  Bytes texts, scores, kinds;
  for (Bytes* list : {&texts, &scores, &kinds}) list->put<std::uint32_t>(gguf_test::kArray);
  texts.put<std::uint32_t>(gguf_test::kString), scores.put<std::uint32_t>(gguf_test::kF32), kinds.put<std::uint32_t>(gguf_test::kI32);
  for (Bytes* list : {&texts, &scores, &kinds}) list->put<std::uint64_t>(kVocabulary);
  for (std::uint32_t id = 0; id < kVocabulary; ++id) {
    constexpr const char* kSpecial[] = {"<unk>", "<s>", "</s>"};
    constexpr char kHex[] = "0123456789ABCDEF";
    const std::uint32_t byte = id - kNoText;
    const bool is_byte = id >= kNoText && byte < 256;
    if (id < kNoText)
      texts.text(kSpecial[id]);
    else if (is_byte)
      texts.text(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">");
    else
      texts.text(word(id));
    scores.put<float>(is_byte || id < kNoText ? 0.0f : -static_cast<float>(id));
    kinds.put<std::int32_t>(id == 0 ? 2 : id < kNoText ? 3 : is_byte ? 6 : 1);
  }
  pair("tokenizer.ggml.model", Bytes().put<std::uint32_t>(gguf_test::kString).text("llama").str());
  pair("tokenizer.ggml.tokens", texts.str());
  pair("tokenizer.ggml.scores", scores.str());
  pair("tokenizer.ggml.token_type", kinds.str());
}

void ModelWriter::tensor(const std::string& name, std::vector<std::int64_t> shape, Like like, const std::string& seed) {
  tensors_.push_back({name, std::move(shape), like, seed.empty() ? name : seed});
}

std::vector<float> ModelWriter::values(const Tensor& t) {
  const std::int64_t slices = t.shape.size() > 2 ? t.shape[2] : 1, count = t.shape[0] * (t.shape.size() > 1 ? t.shape[1] : 1);
  const Interval in = interval(t.like, t.shape[0]);
  std::vector<float> x;
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    Random random(t.shape.size() > 2 ? t.seed + "." + std::to_string(slice) : t.seed);
    for (std::int64_t i = 0; i < count; ++i) x.push_back(in.middle + in.half * random.uniform());
  }
  if (t.like == Like::kFusion) {
    for (std::int64_t row = 0; row < t.shape[1]; ++row) x[static_cast<std::size_t>(row * t.shape[0] + row)] += 1;
  }
  if (t.like == Like::kOutput) std::fill_n(x.begin(), kNoWord * t.shape[0], 0.0f);
  return x;
}

void ModelWriter::write(TensorType matrices, bool widened, const std::string& path) const {
  std::ofstream out(path, std::ios::binary);
  gguf::Writer writer([&](std::span<const std::byte> bytes) {
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  });
  for (const auto& [key, value] : metadata_) writer.set_raw(key, std::as_bytes(std::span(value.data(), value.size())));
  const auto type_of = [&](const Tensor& t) { return is_vector(t.like) ? TensorType::F32 : matrices; };
  for (const Tensor& t : tensors_) writer.add_tensor(t.name, widened ? TensorType::F32 : type_of(t), t.shape);
  writer.begin();
  for (const Tensor& t : tensors_) {
    std::vector<float> x = values(t);
    if (widened && type_of(t) == TensorType::F16)
      std::ranges::transform(x, x.begin(), [](float value) { return cpu::f16_to_f32(cpu::f32_to_f16(value)); });
    if (widened || type_of(t) == TensorType::F32) {
      writer.data(std::as_bytes(std::span(x)));
      continue;
    }
    std::vector<std::uint16_t> halves(x.size());
    std::transform(x.begin(), x.end(), halves.begin(), cpu::f32_to_f16);
    writer.data(std::as_bytes(std::span(halves)));
  }
}

}  // namespace yamata::families_test
