// The format of each tensor.
#include "src/quantize/mix.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "node/error.hpp"
#include "tests/gguf/support.hpp"

namespace yamata::quantize {
namespace {

using namespace gguf_test;

struct Shape {
  std::uint32_t layers = 16, heads = 8, kv_heads = 8;
  std::uint64_t cols = 256;
  bool tied = false;
};

/// The table of a model; its data do not matter.
class Model {
 public:
  explicit Model(const Shape& shape = {}) : bytes_(make(shape)), file_(gguf::File::parse(as_span(bytes_), "model")) {}

  /// Formats by tensor name.
  std::map<std::string, TensorType> types(MixOptions options) const {
    std::vector<const gguf::Tensor*> tensors;
    for (const gguf::Tensor& tensor : file_.tensors()) tensors.push_back(&tensor);
    Mix mix(file_, tensors, options);
    std::map<std::string, TensorType> result;
    for (const gguf::Tensor* tensor : tensors) result[tensor->name] = mix.choose(*tensor).type;
    return result;
  }
  std::map<std::string, TensorType> types(const char* kind) const {
    MixOptions options;
    options.kind = find_kind(kind).value();
    return types(options);
  }

 private:
  static std::string make(const Shape& shape) {
    Writer writer;
    writer.string("general.architecture", "llama").scalar<std::uint32_t>("llama.context_length", kU32, 64);
    writer.scalar<std::uint32_t>("llama.embedding_length", kU32, 256).scalar<std::uint32_t>("llama.feed_forward_length", kU32, 256);
    writer.scalar<std::uint32_t>("llama.block_count", kU32, shape.layers)
        .scalar<std::uint32_t>("llama.attention.head_count", kU32, shape.heads);
    writer.scalar<std::uint32_t>("llama.attention.head_count_kv", kU32, shape.kv_heads);
    writer.scalar<float>("llama.attention.layer_norm_rms_epsilon", kF32, 1e-5f);
    const auto matrix = [&](const std::string& name) { writer.tensor(name, {shape.cols, 2}, 1, 4 * shape.cols); };
    matrix("token_embd.weight");
    if (!shape.tied) matrix("output.weight");
    writer.tensor("output_norm.weight", {shape.cols}, 0, 4 * shape.cols);
    for (std::uint32_t i = 0; i < shape.layers; ++i) {
      for (const char* name : {"attn_k", "attn_output", "attn_q", "attn_v", "ffn_down", "ffn_gate", "ffn_up", "attn_norm"})
        matrix("blk." + std::to_string(i) + "." + name + ".weight");
    }
    return writer.finish();
  }

  std::string bytes_;
  gguf::File file_;
};

std::string layer(int i, const char* name) { return "blk." + std::to_string(i) + "." + name + ".weight"; }

/// The layers whose tensor of that name has this format.
std::vector<int> layers_with(const std::map<std::string, TensorType>& types, const char* name, TensorType type) {
  std::vector<int> layers;
  for (int i = 0; types.contains(layer(i, name)); ++i) {
    if (types.at(layer(i, name)) == type) layers.push_back(i);
  }
  return layers;
}

using Layers = std::vector<int>;

TEST(Mix, NormsStayAndMatricesChange) {
  for (const char* kind : {"F32", "BF16", "Q4_0", "Q8_0", "Q4_K_M"}) {
    const auto types = Model().types(kind);
    EXPECT_EQ(types.at("output_norm.weight"), TensorType::F32) << kind;
    EXPECT_EQ(types.at(layer(3, "attn_norm")), TensorType::F16) << kind;
    EXPECT_EQ(types.at(layer(3, "attn_q")), base_type(*find_kind(kind))) << kind;
  }
}

TEST(Mix, FirstAndLastLayersAndEveryThirdBetween_getMore) {
  const Layers more{0, 1, 4, 7, 10, 13, 14, 15};
  for (const char* kind : {"Q4_K_M", "Q5_K_M"}) {
    const auto types = Model().types(kind);
    EXPECT_EQ(layers_with(types, "attn_v", TensorType::Q6_K), more) << kind;
    EXPECT_EQ(layers_with(types, "ffn_down", TensorType::Q6_K), more) << kind;
    EXPECT_EQ(layers_with(types, "ffn_up", TensorType::Q6_K), Layers{}) << kind;
  }
}

TEST(Mix, SmallAndLargeKinds) {
  const auto q4 = Model().types("Q4_K_S"), q3m = Model().types("Q3_K_M"), q3l = Model().types("Q3_K_L"), q3s = Model().types("Q3_K_S");
  EXPECT_EQ(layers_with(q4, "attn_v", TensorType::Q5_K), (Layers{0, 1, 2, 3}));
  EXPECT_EQ(layers_with(q4, "ffn_down", TensorType::Q5_K), (Layers{0, 1}));
  EXPECT_EQ(layers_with(q3m, "attn_v", TensorType::Q5_K), (Layers{0, 1}));
  EXPECT_EQ(layers_with(q3m, "ffn_down", TensorType::Q5_K), (Layers{0}));
  EXPECT_EQ(layers_with(q3m, "ffn_down", TensorType::Q4_K).size(), 15u);
  EXPECT_EQ(q3m.at(layer(5, "attn_output")), TensorType::Q4_K);
  EXPECT_EQ(q3l.at(layer(5, "attn_output")), TensorType::Q5_K);
  EXPECT_EQ(q3l.at(layer(5, "attn_v")), TensorType::Q5_K);
  for (const char* name : {"attn_v", "attn_output", "ffn_down", "attn_q"}) EXPECT_EQ(q3s.at(layer(0, name)), TensorType::Q3_K) << name;
}

TEST(Mix, GroupedHeads_getBetterValues) {
  const Model alone, grouped({16, 8, 2});
  EXPECT_EQ(alone.types("Q2_K").at(layer(5, "attn_v")), TensorType::Q3_K);
  EXPECT_EQ(grouped.types("Q2_K").at(layer(5, "attn_v")), TensorType::Q4_K);
  EXPECT_EQ(grouped.types("Q2_K_S").at(layer(5, "attn_v")), TensorType::Q4_K);
  EXPECT_EQ(alone.types("IQ4_XS").at(layer(5, "attn_v")), TensorType::IQ4_XS);
  EXPECT_EQ(grouped.types("IQ4_XS").at(layer(5, "attn_v")), TensorType::Q5_K);
  EXPECT_EQ(grouped.types("IQ4_NL").at(layer(5, "attn_v")), TensorType::Q5_K);
  EXPECT_EQ(Model({80, 8, 2}).types("Q4_K_S").at(layer(40, "attn_v")), TensorType::Q5_K);
  EXPECT_EQ(Model({80, 8, 8}).types("Q4_K_S").at(layer(40, "attn_v")), TensorType::Q4_K);
}

TEST(Mix, OutputIsSixBits_andEmbeddingsThatServeAsOutputToo) {
  const Model own, tied({16, 8, 8, 256, true});
  EXPECT_EQ(own.types("Q4_0").at("output.weight"), TensorType::Q6_K);
  EXPECT_EQ(own.types("Q4_0").at("token_embd.weight"), TensorType::Q4_0);
  EXPECT_EQ(tied.types("Q4_0").at("token_embd.weight"), TensorType::Q6_K);
  EXPECT_EQ(tied.types("Q8_0").at("token_embd.weight"), TensorType::Q8_0);
  MixOptions options;
  options.output_type = TensorType::Q5_0;
  EXPECT_EQ(tied.types(options).at("token_embd.weight"), TensorType::Q5_0);
  options.embedding_type = TensorType::Q4_1;
  EXPECT_EQ(own.types(options).at("token_embd.weight"), TensorType::Q4_1);
  EXPECT_EQ(own.types(options).at("output.weight"), TensorType::Q5_0);
  MixOptions leave;
  leave.leave_output = true;
  EXPECT_EQ(own.types(leave).at("output.weight"), TensorType::F16);
  MixOptions pure;
  pure.pure = true;
  const auto types = own.types(pure);
  EXPECT_EQ(types.at("output.weight"), TensorType::Q4_K);
  EXPECT_EQ(layers_with(types, "ffn_down", TensorType::Q4_K).size(), 16u);
}

TEST(Mix, Importance_changesWhatNeedsIt) {
  MixOptions options;
  options.kind = Kind::IQ4_XS;
  EXPECT_EQ(layers_with(Model().types(options), "ffn_down", TensorType::Q5_K), (Layers{0, 1}));
  options.has_importance = true;
  EXPECT_EQ(layers_with(Model().types(options), "ffn_down", TensorType::Q5_K), Layers{});
  EXPECT_EQ(layers_with(Model().types("Q4_0"), "ffn_down", TensorType::Q4_0).size(), 16u);
  EXPECT_EQ(layers_with(Model().types("Q5_0"), "ffn_down", TensorType::Q5_0).size(), 16u);
  options.kind = Kind::Q4_0;
  EXPECT_EQ(layers_with(Model().types(options), "ffn_down", TensorType::Q4_1), (Layers{0, 1}));
  options.kind = Kind::Q5_0;
  EXPECT_EQ(layers_with(Model().types(options), "ffn_down", TensorType::Q5_1), (Layers{0, 1}));
  EXPECT_TRUE(needs_importance(Kind::Q2_K_S, TensorType::Q2_K, "blk.0.attn_q.weight"));
  EXPECT_FALSE(needs_importance(Kind::Q2_K_S, TensorType::Q2_K, "token_embd.weight"));
  EXPECT_FALSE(needs_importance(Kind::Q2_K, TensorType::Q2_K, "blk.0.attn_q.weight"));
}

TEST(Mix, RowsThatAreNoWholeBlocks_getAnotherFormat) {
  const std::pair<const char*, TensorType> cases[] = {
      {"Q2_K", TensorType::Q4_0},   {"Q3_K_S", TensorType::Q4_0},   {"Q4_K_S", TensorType::Q5_0},
      {"Q5_K_S", TensorType::Q5_1}, {"Q6_K", TensorType::Q8_0},     {"IQ4_XS", TensorType::IQ4_NL},
      {"Q4_1", TensorType::Q4_1},   {"IQ4_NL", TensorType::IQ4_NL}, {"F16", TensorType::F16}};
  for (const auto& [kind, type] : cases) {
    EXPECT_EQ(Model({16, 8, 8, 96}).types(kind).at(layer(9, "attn_q")), type) << kind;
    EXPECT_EQ(Model({16, 8, 8, 40}).types(kind).at(layer(9, "attn_q")), TensorType::F16) << kind;
  }
  EXPECT_EQ(Model({16, 8, 8, 96}).types("Q4_K_M").at("output.weight"), TensorType::Q8_0);
}

TEST(Mix, Names_areFoundInAnyCase) {
  EXPECT_EQ(find_kind("q4_k"), Kind::Q4_K_M);
  EXPECT_EQ(find_kind("Q3_K"), Kind::Q3_K_M);
  EXPECT_EQ(find_kind("q5_K"), Kind::Q5_K_M);
  EXPECT_EQ(find_kind("iq4_xs"), Kind::IQ4_XS);
  EXPECT_EQ(kind_name(Kind::Q4_K_M), "Q4_K_M");
  EXPECT_FALSE(find_kind("Q9").has_value());
  EXPECT_EQ(find_tensor_type("q6_k"), TensorType::Q6_K);
  EXPECT_FALSE(find_tensor_type("Q4_K_M").has_value());
}

}  // namespace
}  // namespace yamata::quantize
