// Sparse attention, compared with a plain program of its definition (DeepSeek-V3.2, section 2.1, and its publisher's code): keys and values
// of every head, a score for every pair of tokens, all in double precision.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "node/units/layered_unit.hpp"
#include "tests/families/layouts.hpp"
#include "tests/families/tiny_builder.hpp"

namespace yamata::families_test {
namespace {

using Numbers = std::vector<double>;
using Rows = std::vector<Numbers>;  // [token]

constexpr std::int64_t kPicked = 8, kHeads = 5, kPlain = 32, kRotary = 16, kRank = 64, kIndexHeads = 3, kIndexDim = 64;

/// Dense feed-forwards, so that the program is short: one layer with an index, and one that attends to what that picked, or has its own.
Shape small(const char* architecture) {
  Shape shape{.architecture = architecture, .layers = 2, .heads = kHeads, .kv_heads = 1, .rotary_dim = kRotary};
  shape.latent_rank = kRank, shape.query_rank = 96, shape.plain_dim = kPlain, shape.dense_layers = 2;
  shape.experts = kExperts, shape.shared_ffn = shape.expert_ffn, shape.picked = kPicked, shape.index_heads = kIndexHeads;
  if (architecture == std::string("glm-dsa")) shape.indexed = {true, false};
  return shape;
}

double dot(const double* a, const double* b, std::int64_t n) { return std::inner_product(a, a + n, b, 0.0); }

class Plain {
 public:
  explicit Plain(const gguf::File& file) : file_(file), interleaved_index_(*file.string("general.architecture") == "glm-dsa") {}

  /// Logits of the last token.
  Numbers logits(std::span<const std::int32_t> tokens) {
    const Numbers embedding = values("token_embd.weight");
    Rows x;
    const std::int64_t dim = file_.tensor("token_embd.weight").cols();
    for (const std::int32_t token : tokens) x.emplace_back(embedding.begin() + token * dim, embedding.begin() + (token + 1) * dim);
    for (int layer = 0; layer < 2; ++layer) {
      at_ = "blk." + std::to_string(layer) + ".";
      const Rows added = attend(x);
      for (std::size_t t = 0; t < x.size(); ++t) add(x[t], added[t]), feed_forward(x[t]);
    }
    at_.clear();
    return product("output.weight", normed("output_norm.weight", x.back()));
  }
  std::int64_t skipped = 0;  ///< pairs of tokens that are not attended to

 private:
  Numbers values(const std::string& name) const {
    const gguf::Tensor& tensor = file_.tensor(at_ + name);
    const auto* floats = reinterpret_cast<const float*>(tensor.data);
    return {floats, floats + tensor.cols() * tensor.rows()};
  }
  Numbers product(const std::string& name, const Numbers& x) const {
    const Numbers w = values(name);
    const auto cols = std::ssize(x);
    Numbers y;
    for (std::int64_t row = 0; row < std::ssize(w) / cols; ++row) y.push_back(dot(w.data() + row * cols, x.data(), cols));
    return y;
  }
  Numbers normed(const std::string& name, Numbers x) const {
    const Numbers w = values(name);
    const double mean = dot(x.data(), x.data(), std::ssize(x)) / static_cast<double>(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= w[i] / std::sqrt(mean + 1e-5);
    return x;
  }
  /// LayerNorm of a key of the index.
  Numbers centered(Numbers x) const {
    const Numbers w = values("indexer.k_norm.weight"), bias = values("indexer.k_norm.bias");
    const auto n = static_cast<double>(x.size());
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
    for (double& value : x) value -= mean;
    const double deviation = std::sqrt(dot(x.data(), x.data(), std::ssize(x)) / n + 1e-6);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] / deviation * w[i] + bias[i];
    return x;
  }
  static void add(Numbers& x, const Numbers& more) { std::ranges::transform(x, more, x.begin(), std::plus()); }
  void feed_forward(Numbers& x) const {
    const Numbers input = normed("ffn_norm.weight", x), up = product("ffn_up.weight", input);
    Numbers gate = product("ffn_gate.weight", input);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    add(x, product("ffn_down.weight", gate));
  }
  static void rotate(double* x, std::size_t position, bool interleaved) {
    for (int pair = 0; pair < kRotary / 2; ++pair) {
      double &a = interleaved ? x[2 * pair] : x[pair], &b = interleaved ? x[2 * pair + 1] : x[pair + kRotary / 2];
      const double angle = static_cast<double>(position) * std::pow(10000.0, -2.0 * pair / kRotary);
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle), a = turned;
    }
  }

  /// Which earlier tokens each token attends to.
  void pick(const Rows& inputs, const Rows& low) {
    Rows keys;
    picked_.clear();
    for (std::size_t t = 0; t < inputs.size(); ++t) {
      keys.push_back(centered(product("indexer.attn_k.weight", inputs[t])));
      rotate(keys.back().data(), t, interleaved_index_);
      Numbers q = product("indexer.attn_q_b.weight", low[t]);
      for (int head = 0; head < kIndexHeads; ++head) rotate(q.data() + head * kIndexDim, t, interleaved_index_);
      const Numbers weights = product("indexer.proj.weight", inputs[t]);
      Numbers scores(t + 1);
      for (std::size_t s = 0; s <= t; ++s) {
        for (int head = 0; head < kIndexHeads; ++head)
          scores[s] += weights[static_cast<std::size_t>(head)] * std::max(0.0, dot(q.data() + head * kIndexDim, keys[s].data(), kIndexDim));
      }
      std::vector<std::size_t>& best = picked_.emplace_back(t + 1);
      std::iota(best.begin(), best.end(), 0);
      std::ranges::stable_sort(best, std::ranges::greater(), [&](std::size_t s) { return scores[s]; });
      if (best.size() > kPicked) skipped += std::ssize(best) - kPicked, best.resize(kPicked);
    }
  }

  Rows attend(const Rows& x) {
    Rows inputs, low, latents, rotated;
    for (std::size_t t = 0; t < x.size(); ++t) {
      inputs.push_back(normed("attn_norm.weight", x[t]));
      low.push_back(normed("attn_q_a_norm.weight", product("attn_q_a.weight", inputs[t])));
      const Numbers both = product("attn_kv_a_mqa.weight", inputs[t]);
      latents.push_back(normed("attn_kv_a_norm.weight", {both.begin(), both.begin() + kRank}));
      rotated.emplace_back(both.begin() + kRank, both.end());
      rotate(rotated[t].data(), t, true);
    }
    if (file_.find(at_ + "indexer.proj.weight")) pick(inputs, low);
    const Numbers key_up = values("attn_k_b.weight"), value_up = values("attn_v_b.weight");
    Rows out;
    for (std::size_t t = 0; t < x.size(); ++t) {
      Numbers q = product("attn_q_b.weight", low[t]), heads;
      for (std::int64_t head = 0; head < kHeads; ++head) {
        double* query = q.data() + head * (kPlain + kRotary);
        rotate(query + kPlain, t, true);
        const Numbers found = attend_to(t, query, key_up.data() + head * kRank * kPlain, latents, rotated);
        const std::int64_t value_dim = std::ssize(value_up) / kHeads / kRank;
        for (std::int64_t i = 0; i < value_dim; ++i)
          heads.push_back(dot(value_up.data() + (head * value_dim + i) * kRank, found.data(), kRank));
      }
      out.push_back(product("attn_output.weight", heads));
    }
    return out;
  }

  /// The mean of the latent vectors, weighted by the softmax of a head's scores.
  Numbers attend_to(std::size_t t, const double* query, const double* key_up, const Rows& latents, const Rows& rotated) const {
    Numbers weights, mean(kRank);
    for (const std::size_t s : picked_[t]) {
      Numbers key(kPlain);
      for (std::int64_t r = 0; r < kRank; ++r) {
        for (std::int64_t i = 0; i < kPlain; ++i)
          key[static_cast<std::size_t>(i)] += key_up[r * kPlain + i] * latents[s][static_cast<std::size_t>(r)];
      }
      const double score = dot(query, key.data(), kPlain) + dot(query + kPlain, rotated[s].data(), kRotary);
      weights.push_back(std::exp(score / std::sqrt(static_cast<double>(kPlain + kRotary))));
    }
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      for (std::size_t r = 0; r < mean.size(); ++r) mean[r] += weights[i] / sum * latents[picked_[t][i]][r];
    }
    return mean;
  }

  const gguf::File& file_;
  bool interleaved_index_;
  std::string at_;
  std::vector<std::vector<std::size_t>> picked_;
};

class Sparse : public LayoutsOfOne, public ::testing::WithParamInterface<const char*> {};

TEST_P(Sparse, Logits_areThoseOfAPlainProgram) {
  Builder builder(small(GetParam()));
  builder.m.count("expert_shared_count", 1).count("expert_gating_func", 2);
  const std::string path = folder_ / "sparse.gguf";
  builder.m.write(TensorType::F32, false, path);
  const ModelFile model = ModelFile::open(path);
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 64; ++i) tokens.push_back(260 + i * 37 % 250);
  CpuUnit unit({-1}, cpu::choose_isa());
  const Logits found = compute(unit, model, {{0, 2}}, {text(tokens, 0)}, {}, 0, {}, CacheType::kF32);
  Plain plain(model.file);
  const Numbers expected = plain.logits(tokens);
  EXPECT_EQ(plain.skipped, (model.h.indexed.empty() ? 2 : 1) * 56 * 57 / 2);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-3) << i;
}

INSTANTIATE_TEST_SUITE_P(Families, Sparse, ::testing::Values("deepseek32", "glm-dsa"),
                         [](const auto& info) { return info.param == std::string("glm-dsa") ? "glm_dsa" : "deepseek32"; });

/// What a file of `glm-dsa` says of its index.
struct Index {
  std::int64_t context = 512, dim = 64;
  std::vector<bool> indexed{};
};

class SparseReader : public LayoutsOfOne {
 protected:
  Hyperparameters read(const Index& index) {
    Shape shape = small("glm-dsa");
    shape.layers = 9, shape.index_dim = index.dim, shape.indexed = index.indexed;
    Builder builder(shape);
    builder.m.count("expert_shared_count", 1).count("context_length", index.context);
    const std::string path = folder_ / "read.gguf";
    builder.m.write(TensorType::F16, false, path);
    return Hyperparameters::read(gguf::File::open(path));
  }
  std::string refusal(const Index& index) {
    try {
      read(index);
    } catch (const ModelError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(SparseReader, FilesWithoutAListOfIndexes_haveThoseOfTheirGeneration) {
  EXPECT_TRUE(read({}).indexed.empty());
  EXPECT_EQ(read({.context = 1 << 20}).indexed, (std::vector<bool>{true, true, true, false, false, false, true, false, false}));
  const std::vector<bool> listed{true, false, false, false, true, false, true, true, false};
  const Hyperparameters h = read({.context = 1 << 20, .indexed = listed});
  for (std::int64_t layer = 0; layer < h.layers; ++layer) {
    EXPECT_EQ(h.layer_at(layer).index_heads > 0, listed[static_cast<std::size_t>(layer)]) << layer;
    EXPECT_EQ(h.layer_at(layer).picked, kPicked) << layer;
  }
  EXPECT_EQ(h.layer_at(h.layers).picked, 0) << "of an MTP layer";
}

TEST_F(SparseReader, WhatIsNotSupported_isRefusedByName) {
  std::vector<bool> first_without(9, true);
  first_without[0] = false;
  EXPECT_NE(refusal({.indexed = first_without}).find("its first layer attends to what"), std::string::npos);
  EXPECT_NE(refusal({.dim = 48}).find("48 values are not a multiple of 32"), std::string::npos);
  EXPECT_NE(refusal({.dim = 1024}).find("attention.indexer.key_length is 1024"), std::string::npos);
}

/// Where a cut lies before a layer that attends to what an earlier one has picked, the places of the picked cells pass with the
/// activations.
TEST_F(LayoutsOfOne, PickedCells_passEveryCut) {
  const ModelFile model = open("Q8_0", "glm-dsa-sparse");
  const std::int64_t layers = model.h.layers;
  const std::vector<Batch> batches = singly(20);
  std::vector<LayerRange> each;
  for (std::int64_t layer = 0; layer < layers; ++layer) each.push_back({layer, layer + 1});
  const Logits expected = compute(model, {{0, layers}}, batches, {});
  EXPECT_EQ(compute(model, each, batches, {}), expected);
  EXPECT_EQ(together(model, each, batches, {0.4, 0.6}), expected);
  for (std::int64_t cut = 1; cut < layers; ++cut) {
    const bool shares = model.h.layer_at(cut).index_heads == 0;
    EXPECT_EQ(PassedRows(model.h, cut).width(), model.h.dim + (shares ? model.h.layer.picked : 0));
    EXPECT_EQ(compute(model, {{0, cut}, {cut, layers}}, batches, {}), expected) << cut;
  }
  EXPECT_NE(compute(open("Q8_0", "glm-dsa"), {{0, layers}}, batches, {}), expected);
}

/// Where some layers have a unit of their own (-ngl), later ones attend to what an index there has picked.
TEST_F(LayoutsOfOne, PickedCells_areReadByOtherUnitsLayers) {
  const ModelFile model = open("Q8_0", "glm-dsa-sparse");
  const std::vector<std::int32_t> prompt = tiny_prompt();
  const auto end = static_cast<std::int32_t>(prompt.size());
  const std::vector<Batch> batches{text(prompt, 0),
                                   {{300, 400, 402}, {{end, -1, {0, 4}}, {end + 1, 0, {1, 2}}, {end + 1, 0, {2, 3}}}, {0, 1, 2}}};
  const std::vector<LayerRange> whole{{0, model.h.layers}};
  const Logits expected = compute(model, whole, batches, {});
  for (std::int64_t first = 1; first < model.h.layers; ++first) {
    LayeredUnit unit(make_units(kUnits[1]), make_units("c"));
    EXPECT_EQ(compute(unit, model, whole, batches, {}, 0, {}, CacheType::kF16, first), expected) << first;
  }
}

/// The keys of an index are in the cache of each type, of as many bytes as the plan counts.
TEST_F(LayoutsOfOne, KeysOfAnIndex_areCached) {
  const ModelFile model = open("F32", "glm-dsa-sparse");
  const Shard whole(model.h);
  const std::vector<std::int32_t> prompt = tiny_prompt();
  const std::vector<LayerRange> two{{0, 2}, {2, 5}};
  for (const CacheType type : {CacheType::kF32, CacheType::kF16}) {
    const std::size_t latent = row_bytes(tensor_type(type), model.h.head_dim), key = row_bytes(tensor_type(type), model.h.layer.index_dim);
    EXPECT_EQ(cell_bytes(model.h, {0, model.h.layers}, whole, type, false), 5 * latent + 2 * key);
    EXPECT_EQ(mean_cell_bytes(model.h, type, 100), static_cast<double>(5 * latent + 2 * key) / 5);
    CpuUnit unit({-1}, cpu::choose_isa());
    const Logits last = compute(unit, model, {{0, 5}}, {text(prompt, 0)}, {}, 0, {}, type),
                 all = compute(unit, model, two, singly(23), {}, 0, {}, type);
    EXPECT_EQ(Logits(all.end() - std::ssize(last), all.end()), last);
  }
}

}  // namespace
}  // namespace yamata::families_test
