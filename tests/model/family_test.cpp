// Layers as data: a family's row determines what a stage holds, and what is refused.
#include "src/model/family.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "node/cpu/cpu_unit.hpp"
#include "node/error.hpp"
#include "src/model/transformer_stage.hpp"
#include "src/model/unread_tensors.hpp"
#include "tests/finish.hpp"
#include "tests/model/support.hpp"

namespace yamata {
namespace {

/// A small Llama with all its tensors, and 2 heads of keys.
ModelFile llama_file() {
  ModelFile file = small_llama();
  file.set("llama.attention.head_count_kv", std::uint64_t{2});
  file.tensors["output.weight"] = {64, 10};
  file.tensors["output_norm.weight"] = {64};
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (const char* norm : {"attn_norm.weight", "ffn_norm.weight"}) file.tensors[layer + norm] = {64};
    for (const char* square : {"attn_q.weight", "attn_output.weight"}) file.tensors[layer + square] = {64, 64};
    for (const char* keys : {"attn_k.weight", "attn_v.weight"}) file.tensors[layer + keys] = {64, 32};
    for (const char* wide : {"ffn_gate.weight", "ffn_up.weight"}) file.tensors[layer + wide] = {64, 96};
    file.tensors[layer + "ffn_down.weight"] = {96, 64};
  }
  return file;
}
constexpr std::size_t kNorms = 2 * 64, kMatrices = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96, kLayerBytes = 4 * (kNorms + kMatrices);
constexpr std::size_t kTable = 4 * 64 * 10, kOutputNorm = 4 * 64;

/// A family that does not exist: no gate, norms of queries, its own tensor names, and a matrix that only it has.
constexpr TensorRow kMadeUpTensors[] = {
    {TensorRole::kEmbedding, "wte.weight", Holder::kFirstStage, Extent::kVocabulary, Extent::kDim},
    {TensorRole::kQ, "mixer.weight", Holder::kLayer, Extent::kQueries, Extent::kDim},
    {TensorRole::kQNorm, "mixer_norm.weight", Holder::kLayer, Extent::kOne, Extent::kQueries,
     [](const LayerSpec& s) { return s.qk_norm == QkNorm::kToken; }},
    {TensorRole::kGate, "gate.weight", Holder::kLayer, Extent::kFfn, Extent::kDim, [](const LayerSpec& s) { return s.gated; }},
    {TensorRole::kOutput, "head.weight", Holder::kLastStage, Extent::kVocabulary, Extent::kDim, nullptr, "wte.weight"},
};
LayerSpec made_up_layer() {
  LayerSpec spec;
  spec.qk_norm = QkNorm::kToken;
  spec.gated = false;
  return spec;
}
const Family kMadeUp{"made-up", made_up_layer(), kMadeUpTensors};

std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const ModelError& error) {
    return error.what();
  }
  return "";
}

TEST(Family, LlamaRow_saysWhatAStageHolds) {
  ModelFile model = llama_file();
  const gguf::File file = model.read();
  const Hyperparameters h = Hyperparameters::read(file);
  EXPECT_EQ(h.layer, LayerSpec{});
  EXPECT_EQ(layer_bytes(file, h, 0), kLayerBytes);
  EXPECT_EQ(stage_bytes(file, h, {0, 1}), kTable + kLayerBytes);
  EXPECT_EQ(stage_bytes(file, h, {1, 2}), kLayerBytes + kTable + kOutputNorm);
  EXPECT_EQ(stage_bytes(file, h, {0, 2}), 2 * kLayerBytes + 2 * kTable + kOutputNorm);
  StageWeights middle = StageWeights::find(file, h, {1, 2});
  EXPECT_FALSE(middle.rest.has(TensorRole::kEmbedding));
  EXPECT_EQ(middle.layers[0].matrix(TensorRole::kK).rows, 32);
  EXPECT_EQ(middle.layers[0].matrix(TensorRole::kDown).cols, 96);
  EXPECT_EQ(middle.layers[0].matrix(TensorRole::kQ).data, file.tensor("blk.1.attn_q.weight").data);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(middle.layers[0].vector(TensorRole::kFfnNorm)), file.tensor("blk.1.ffn_norm.weight").data);
  EXPECT_EQ(middle.factors().size(), 7u + 1u) << "seven of the layer, and the output";
}

TEST(Family, TiedOutput_isTheEmbedding_andCountsOnce) {
  ModelFile model = llama_file();
  model.tensors.erase("output.weight");
  const gguf::File file = model.read();
  const Hyperparameters h = Hyperparameters::read(file);
  EXPECT_EQ(StageWeights::find(file, h, {1, 2}).rest.matrix(TensorRole::kOutput).data, file.tensor("token_embd.weight").data);
  EXPECT_EQ(stage_bytes(file, h, {0, 2}), 2 * kLayerBytes + kTable + kOutputNorm);
  EXPECT_EQ(stage_bytes(file, h, {1, 2}), kLayerBytes + kTable + kOutputNorm);
}

TEST(Family, AnotherRow_findsItsOwnTensors) {
  ModelFile model = llama_file();
  model.tensors["wte.weight"] = {64, 10};
  for (const std::string layer : {"blk.0.", "blk.1."})
    model.tensors[layer + "mixer.weight"] = {64, 64}, model.tensors[layer + "mixer_norm.weight"] = {64};
  const gguf::File file = model.read();
  Hyperparameters h = Hyperparameters::read(file);
  h.family = &kMadeUp;
  h.layer = kMadeUp.layer;
  const auto found = find_tensors(file, h, {0, 2});
  std::vector<std::string> names;
  for (const FoundTensor& f : found) names.push_back(f.tensor->name);
  EXPECT_EQ(names, (std::vector<std::string>{"wte.weight", "blk.0.mixer.weight", "blk.0.mixer_norm.weight", "blk.1.mixer.weight",
                                             "blk.1.mixer_norm.weight", "wte.weight"}));
  EXPECT_EQ(layer_bytes(file, h, 1), 4u * (64 * 64 + 64));
  EXPECT_EQ(stage_bytes(file, h, {0, 2}), kTable + 8u * (64 * 64 + 64)) << "the table stands in for the output, and is read once";
}

TEST(Family, TensorOfAnotherShape_isNamed) {
  ModelFile model = llama_file();
  model.tensors["blk.1.ffn_up.weight"] = {64, 95};
  const gguf::File file = model.read();
  const Hyperparameters h = Hyperparameters::read(file);
  EXPECT_EQ(refusal([&] {
              find_tensors(file, h, {0, 2});
            }),
            "test.gguf: tensor blk.1.ffn_up.weight is 95 x 64, the metadata asks for 96 x 64");
  EXPECT_EQ(refusal([&] { find_tensors(file, h, {0, 1}); }), "") << "another stage's";
}

TEST(Family, BiasInTheFile_isFoundAndMustFit) {
  ModelFile model = llama_file();
  model.tensors["blk.1.attn_v.bias"] = {32};
  const gguf::File file = model.read();
  const Hyperparameters h = Hyperparameters::read(file);
  const StageWeights weights = StageWeights::find(file, h, {0, 2});
  EXPECT_EQ(weights.layers[0].vector(TensorRole::kVBias), nullptr);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(weights.layers[1].vector(TensorRole::kVBias)), file.tensor("blk.1.attn_v.bias").data);
  model.tensors["blk.1.attn_v.bias"] = {33};
  const gguf::File longer = model.read();
  EXPECT_EQ(refusal([&] { StageWeights::find(longer, h, {1, 2}); }), "test.gguf: tensor blk.1.attn_v.bias has 33 values, not 32");
}

TEST(Family, TensorThatNothingReads_isRefusedByName_unlessItIsHarmless) {
  const auto refusal_with = [](const char* name, std::vector<std::uint64_t> shape) {
    ModelFile model = llama_file();
    model.tensors[name] = std::move(shape);
    const gguf::File file = model.read();
    return refusal([&] { require_all_read(file, Hyperparameters::read(file)); });
  };
  EXPECT_EQ(refusal_with("blk.1.attn_q.bias", {64}), "");
  for (const char* name : {"blk.1.attn_rot_embd.weight", "v.blk.0.ln1.weight", "mm.0.weight", "blk.0.attn_q.input_scale"})
    EXPECT_EQ(refusal_with(name, {8}), "") << name;
  EXPECT_EQ(refusal_with("rope_freqs.weight", {8}), "");
  EXPECT_EQ(refusal_with("output.bias", {10}), "");
  EXPECT_EQ(refusal_with("blk.0.attn_v.scale", {1}), "");
  for (const char* name : {"blk.0.attn_norm.bias", "output_norm.bias", "blk.1.attn_q_norm.weight", "output.scale", "blk.0.attn_norm.scale",
                           "blk.0.attn_q.weight.absmax", "blk.2.attn_norm.weight", "blk.1.ffn_gate_inp.weight", "blk.0.attn_qkv.weight"}) {
    EXPECT_EQ(refusal_with(name, {64}).find(std::string("test.gguf: tensor ") + name + " is not supported in files of 'llama'"), 0u)
        << name;
  }
}

TEST(Family, ScaleOfAMatrix_mustBeOneValueAndBesideNoBiasOfAFeedForward) {
  ModelFile model = llama_file();
  const auto refused = [&] {
    const gguf::File file = model.read();
    return refusal([&] { StageWeights::find(file, Hyperparameters::read(file), {0, 2}); });
  };
  model.tensors["blk.1.ffn_up.scale"] = {2};
  EXPECT_EQ(refused(), "test.gguf: tensor blk.1.ffn_up.scale has not 1 value of F32; convert the model again");
  model.tensors["blk.1.ffn_up.scale"] = {1};
  EXPECT_EQ(refused(), "");
  model.tensors["blk.1.ffn_up.bias"] = {96};
  EXPECT_EQ(refused(), "test.gguf: tensor blk.1.ffn_up.scale beside a bias is not supported");
  const gguf::File file = model.read();
  EXPECT_TRUE(Hyperparameters::read(file).layer.scaled);
}

TEST(Family, FactorsPerPair_areReadForTheirScalingOnly) {
  ModelFile model = llama_file();
  model.tensors["rope_factors_short.weight"] = model.tensors["rope_factors_long.weight"] = {8};
  const auto refused = [&] {
    const gguf::File file = model.read();
    return refusal([&] { require_all_read(file, Hyperparameters::read(file)); });
  };
  EXPECT_EQ(refused(), "");
  model.set("llama.rope.scaling.type", "yarn");
  EXPECT_NE(refused().find("rope_factors_long.weight is not supported"), std::string::npos) << refused();
}

TEST(Family, FusedTensors_areCutIntoTheirParts) {
  ModelFile model = llama_file();
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (const char* part : {"attn_q.weight", "attn_k.weight", "attn_v.weight", "ffn_gate.weight"}) model.tensors.erase(layer + part);
    model.tensors[layer + "attn_qkv.weight"] = {64, 64 + 32 + 32};
    model.tensors[layer + "attn_qkv.bias"] = {64 + 32 + 32};
    model.tensors[layer + "ffn_up.weight"] = {64, 2 * 96};
  }
  const gguf::File file = model.read();
  const Hyperparameters h = Hyperparameters::read(file);
  const StageWeights weights = StageWeights::find(file, h, {0, 2});
  const std::byte *qkv = file.tensor("blk.1.attn_qkv.weight").data, *up = file.tensor("blk.1.ffn_up.weight").data;
  const std::byte* bias = file.tensor("blk.1.attn_qkv.bias").data;
  const WeightSet& w = weights.layers[1];
  EXPECT_EQ(w.matrix(TensorRole::kQ).data, qkv);
  EXPECT_EQ(w.matrix(TensorRole::kK).data, qkv + 64 * 256);
  EXPECT_EQ(w.matrix(TensorRole::kV).data, qkv + 96 * 256);
  EXPECT_EQ(w.matrix(TensorRole::kV).rows, 32);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(w.vector(TensorRole::kVBias)), bias + 96 * 4);
  EXPECT_EQ(w.matrix(TensorRole::kGate).data, up);
  EXPECT_EQ(w.matrix(TensorRole::kUp).data, up + 96 * 256);
  EXPECT_EQ(layer_bytes(file, h, 0), kLayerBytes + 4 * 128) << "each byte once, and the biases";
}

TEST(Family, Experts_areFoundInBothLayouts_andATokenReadsThoseThatItUses) {
  ModelFile model = llama_file();
  model.set("llama.expert_count", std::uint64_t{5});
  model.set("llama.expert_used_count", std::uint64_t{2});
  ModelFile single = model;
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (ModelFile* file : {&model, &single}) file->tensors[layer + "ffn_gate_inp.weight"] = {64, 5};
    for (const std::string part : {"gate", "up", "down"}) {
      const std::uint64_t cols = part == "down" ? 96 : 64, rows = part == "down" ? 64 : 96;
      model.tensors[layer + "ffn_" + part + "_exps.weight"] = {cols, rows, 5};
      for (int e = 0; e < 5; ++e) single.tensors[layer + "ffn_" + part + "." + std::to_string(e) + ".weight"] = {cols, rows};
    }
  }
  constexpr std::size_t kRest = 4 * (kNorms + 2 * 64 * 64 + 2 * 64 * 32 + 64 * 5), kExpert = 4 * 3 * 64 * 96;
  for (ModelFile* variant : {&model, &single}) {
    const gguf::File file = variant->read();
    const Hyperparameters h = Hyperparameters::read(file);
    EXPECT_EQ(layer_bytes(file, h, 0), kRest + 2 * kExpert);
    EXPECT_EQ(stage_bytes(file, h, {0, 1}), kTable + kRest + 5 * kExpert);
    EXPECT_EQ(read_bytes(file, h, {0, 1}), kRest + 2 * kExpert);
    EXPECT_EQ(read_bytes(file, h, {0, 2}), 2 * (kRest + 2 * kExpert) + kTable);
    const StageWeights weights = StageWeights::find(file, h, {0, 2});
    const Matrix* up = weights.layers[1].copies(TensorRole::kExpertUp);
    EXPECT_EQ(up[3].rows, 96);
    const bool merged = variant == &model;
    EXPECT_EQ(up[3].data, merged ? file.tensor("blk.1.ffn_up_exps.weight").data + 3 * 96 * 256 : file.tensor("blk.1.ffn_up.3.weight").data);
  }
  single.tensors.erase("blk.1.ffn_down.4.weight");
  const gguf::File lacking = single.read();
  EXPECT_NE(refusal([&] {
              StageWeights::find(lacking, Hyperparameters::read(lacking), {0, 2});
            }).find("blk.1.ffn_down.4.weight"),
            std::string::npos);
}

TEST(Family, HeadsOfLatentAttention_areFoundInBothLayouts) {
  ModelFile model = llama_file();
  model.set("llama.attention.kv_lora_rank", std::uint64_t{48});
  model.set("llama.attention.key_length", std::uint64_t{40});
  model.set("llama.attention.value_length", std::uint64_t{32});
  model.set("llama.rope.dimension_count", std::uint64_t{16});
  ModelFile merged = model;
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (ModelFile* file : {&model, &merged}) {
      for (const char* name : {"attn_k.weight", "attn_v.weight"}) file->tensors.erase(layer + name);
      file->tensors[layer + "attn_q.weight"] = {64, 4 * 40};
      file->tensors[layer + "attn_kv_a_mqa.weight"] = {64, 48 + 16};
      file->tensors[layer + "attn_kv_a_norm.weight"] = {48};
      file->tensors[layer + "attn_output.weight"] = {4 * 32, 64};
    }
    model.tensors[layer + "attn_k_b.weight"] = {24, 48, 4};
    model.tensors[layer + "attn_v_b.weight"] = {48, 32, 4};
    merged.tensors[layer + "attn_kv_b.weight"] = {48, 4 * (24 + 32)};
  }
  const gguf::File file = model.read(), old = merged.read();
  const Hyperparameters h = Hyperparameters::read(file), old_h = Hyperparameters::read(old);
  EXPECT_EQ(layer_bytes(file, h, 0), layer_bytes(old, old_h, 0));
  const StageWeights weights = StageWeights::find(file, h, {0, 2});
  const StageWeights turned = StageWeights::find(old, old_h, {0, 2});
  EXPECT_EQ(weights.layers[0].matrix(TensorRole::kLatentRotary).data, file.tensor("blk.0.attn_kv_a_mqa.weight").data + 48 * 256);
  EXPECT_EQ(weights.layers[0].copies(TensorRole::kValueUp)[3].data, file.tensor("blk.0.attn_v_b.weight").data + 3 * 32 * 48 * 4);
  const auto* all = reinterpret_cast<const float*>(old.tensor("blk.1.attn_kv_b.weight").data);
  const Matrix& key = turned.layers[1].copies(TensorRole::kKeyUp)[3];
  EXPECT_EQ(key.rows, 48);
  EXPECT_EQ(reinterpret_cast<const float*>(key.data)[7 * 24 + 5], all[(3 * 56 + 5) * 48 + 7]) << "number 7 of the key's element 5";
  EXPECT_EQ(reinterpret_cast<const float*>(turned.layers[1].copies(TensorRole::kValueUp)[3].data), all + (3 * 56 + 24) * 48);
  merged.tensors["blk.1.attn_kv_b.weight"] = {48, 4 * 56 - 1};
  const gguf::File wrong = merged.read();
  EXPECT_NE(refusal([&] {
              StageWeights::find(wrong, Hyperparameters::read(wrong), {0, 2});
            }).find("blk.1.attn_kv_b.weight is 223 x 48"),
            std::string::npos);
}

TEST(Family, WhatALayerCannotBe_isRefusedByName) {
  const gguf::File file = llama_file().read();
  const auto refused = [&](auto change) {
    LayerSpec spec;
    change(spec);
    return refusal([&] { require_supported(file, spec); });
  };
  EXPECT_EQ(refused([](LayerSpec&) {}), "");
  EXPECT_EQ(refused([](LayerSpec& s) { s.experts = 8, s.experts_used = 8; }), "");
  EXPECT_NE(refused([](LayerSpec& s) { s.experts = 8, s.experts_used = 9; }).find("9 of 8 experts"), std::string::npos);
  EXPECT_NE(refused([](LayerSpec& s) { s.experts = 8; }).find("0 of 8 experts"), std::string::npos);
  EXPECT_NE(refused([](LayerSpec& s) { s.experts = s.experts_used = 1 << 20; }).find("1048576 experts"), std::string::npos);
  EXPECT_NE(refused([](LayerSpec& s) { s.experts = s.experts_used = 2, s.weigh_inputs = true, s.gated = false; }).find("without a gate"),
            std::string::npos);
  EXPECT_NE(refused([](LayerSpec& s) { s.activation = Activation::kNone; }).find("activation"), std::string::npos);
}

/// The memory plan uses StageBuffers to compute what a stage will allocate.
TEST(StageBuffers, OfARun_areWhatTheStageSetsAside) {
  ModelFile model = llama_file();
  const gguf::File file = model.read();
  const Hyperparameters h = Hyperparameters::read(file);
  CpuUnit unit({-1}, cpu::Isa::kScalar);
  constexpr std::int32_t kTokens = 5;
  const std::vector<std::int32_t> tokens(kTokens, 1), logit_rows{2, 4};
  std::vector<Placement> placements;
  for (std::int32_t i = 0; i < kTokens; ++i) placements.push_back({i, -1, {0, 1}});
  for (const LayerRange range : {LayerRange{0, 2}, LayerRange{0, 1}, LayerRange{1, 2}}) {
    TransformerStage stage(file, h, range, {16, 1, CacheType::kF16, false}, unit);
    const std::vector<float> activations(kTokens * 64, 0.5f);
    stage.start({tokens, range.begin == 0 ? std::span<const float>{} : activations, placements, logit_rows}, nullptr);
    finish(unit);
    const auto planned = static_cast<std::size_t>(StageBuffers::of(h, range).floats(kTokens, 2)) * sizeof(float);
    EXPECT_EQ(stage.buffer_bytes(), planned) << range.begin << ".." << range.end;
  }
}

}  // namespace
}  // namespace yamata
