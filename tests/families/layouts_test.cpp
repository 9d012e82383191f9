// For every family: stages, groups, chunks and trees of guesses give the same bits as one rank that computes token by token.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <deque>
#include <fstream>
#include <thread>

#include "cache/cache_operation.hpp"
#include "node/cpu/cpu_unit.hpp"
#include "node/error.hpp"
#include "node/local_exchange.hpp"
#include "node/spin_wait.hpp"
#include "node/units/split_unit.hpp"
#include "src/model/model_file.hpp"
#include "src/model/transformer_stage.hpp"
#include "src/quantize/quantize.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/finish.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/thorough.hpp"
#ifdef YAMATA_EMULATED_DEVICE
#include "node/cuda/cuda_unit.hpp"
#include "node/cuda/emulation/emulated_device.hpp"
#endif

namespace yamata::families_test {
namespace {

using Logits = std::vector<float>;

/// Rows to compute: tokens of a text from `position` on, or as `placements` say.
struct Batch {
  std::vector<std::int32_t> tokens;
  std::vector<Placement> placements;
  std::vector<std::int32_t> logit_rows;
};

Batch text(std::span<const std::int32_t> tokens, std::size_t position) {
  Batch batch{{tokens.begin(), tokens.end()}, {}, {static_cast<std::int32_t>(tokens.size()) - 1}};
  for (std::size_t i = 0; i < tokens.size(); ++i) batch.placements.push_back({static_cast<std::int32_t>(position + i), -1, {0, 4}});
  return batch;
}

#ifdef YAMATA_EMULATED_DEVICE
std::unique_ptr<ComputeUnit> device() {
  return std::make_unique<cuda::CudaUnit>(std::make_unique<cuda::EmulatedDevice>(cuda::EmulatedDeviceOptions{.unified = false}));
}
const std::vector<std::string> kUnits{"cc", "d", "cd"};
#else
std::unique_ptr<ComputeUnit> device() { return nullptr; }
const std::vector<std::string> kUnits{"cc", "ccc"};
#endif

/// Each letter is a unit: c a core, d an emulated device. Several units share every layer; later ones have larger shares.
std::unique_ptr<ComputeUnit> make_units(const std::string& letters) {
  std::vector<UnitPart> parts;
  for (const char letter : letters) {
    const bool core = letter == 'c';
    parts.push_back({"", core ? std::make_unique<CpuUnit>(std::vector<int>{-1}, cpu::choose_isa()) : device(),
                     static_cast<double>(parts.size() + 1), !core});
  }
  if (parts.size() == 1) return std::move(parts.front().unit);
  return std::make_unique<SplitUnit>(std::move(parts), false, kSpinsUnbound);
}

class LayoutsOfOne : public ::testing::Test {
 protected:
  ModelFile open(const std::string& kind, const std::string& variant) {
    const std::string plain = folder_ / "plain.gguf", path = folder_ / (kind + ".gguf");
    write_tiny_model(variant, TensorType::F32, plain);
    if (kind == "F32") return ModelFile::open(plain);
    const gguf::File file = gguf::File::open(plain);
    quantize::Request request;
    request.mix.kind = *quantize::find_kind(kind);
    ThreadPool pool({-1});
    std::ofstream out(path, std::ios::binary);
    quantize::write_quantized(
        file, quantize::make_plan(file, request), pool,
        [&](std::span<const std::byte> bytes) { out.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes)); },
        [](double) {});
    out.close();
    return ModelFile::open(path);
  }

  /// The logits of each batch, one after another, computed by stages with these layers, all with the same `shares`.
  static Logits compute(const ModelFile& model, const std::vector<LayerRange>& ranges, const std::vector<Batch>& batches, GroupMember group,
                        std::int32_t window_cells = 0, const std::vector<std::vector<CacheOperation>>& before = {}) {
    CpuUnit unit({-1}, cpu::choose_isa());
    return compute(unit, model, ranges, batches, group, window_cells, before);
  }
  static Logits compute(ComputeUnit& unit, const ModelFile& model, const std::vector<LayerRange>& ranges, const std::vector<Batch>& batches,
                        GroupMember group, std::int32_t window_cells = 0, const std::vector<std::vector<CacheOperation>>& before = {},
                        CacheType cache = CacheType::kF16) {
    std::deque<TransformerStage> stages;
    for (const LayerRange range : ranges) {
      stages.emplace_back(model.file, model.h, range, ContextOptions{128, 4, cache, true, group, 0, window_cells}, unit);
      stages.back().load(nullptr);
      finish(unit);
    }
    Logits all;
    for (std::size_t b = 0; b < batches.size(); ++b) {
      const Batch& batch = batches[b];
      std::vector<float> activations;
      for (TransformerStage& stage : stages) {
        for (const CacheOperation& operation : b < before.size() ? before[b] : std::vector<CacheOperation>{})
          apply(operation, stage.cells());
        stage.start({batch.tokens, activations, batch.placements, batch.logit_rows}, nullptr);
        finish(unit);
        activations.assign(stage.activations().begin(), stage.activations().end());
      }
      all.insert(all.end(), stages.back().logits().begin(), stages.back().logits().end());
    }
    return all;
  }
  /// The same, computed by a group whose members each have a part of the logits.
  static Logits together(const ModelFile& model, const std::vector<LayerRange>& ranges, const std::vector<Batch>& batches,
                         const std::vector<double>& shares, const std::string& units = "c",
                         const std::vector<std::vector<CacheOperation>>& before = {}) {
    LocalGroup group(static_cast<int>(shares.size()));
    std::vector<Logits> parts(shares.size());
    std::vector<std::thread> threads;
    for (int m = 0; m < std::ssize(shares); ++m) {
      threads.emplace_back([&, m] {
        const auto exchange = group.member(m);
        const auto unit = make_units(units);
        parts[static_cast<std::size_t>(m)] = compute(*unit, model, ranges, batches, {shares, m, exchange.get()}, 0, before);
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::ptrdiff_t rows = 0;
    for (const Batch& batch : batches) rows += std::ssize(batch.logit_rows);
    Logits all;
    for (std::ptrdiff_t row = 0; row < rows; ++row) {
      for (const Logits& part : parts) {
        const std::ptrdiff_t n = std::ssize(part) / rows;
        all.insert(all.end(), part.begin() + row * n, part.begin() + (row + 1) * n);
      }
    }
    return all;
  }

  test::TemporaryFolder folder_;
};

/// Shares of groups to test: heads of a gated delta rule are divided in more ways, some with one head, or with key heads of two members.
std::vector<std::vector<double>> group_shares(const ModelFile& model) {
  std::vector<std::vector<double>> all{{1, 1}, {0.3, 0.7}};
  if (!model.h.is_recurrent()) return all;
  for (const std::vector<double>& more : {std::vector<double>{5, 1}, {1, 1, 1}, {1, 3, 2}, {1, 1, 1, 1}, {3, 1, 1, 1}}) {
    if (std::ssize(more) <= most_members(model.h)) all.push_back(more);
  }
  return all;
}

class Layouts : public LayoutsOfOne, public ::testing::WithParamInterface<std::string> {
 protected:
  ModelFile open(const std::string& kind) { return LayoutsOfOne::open(kind, GetParam()); }
};

/// The variant's number in the list: what alternates among variants is decided by this.
std::ptrdiff_t index_of(const std::string& variant) {
  const std::vector<std::string> variants = variant_names();
  return std::ranges::find(variants, variant) - variants.begin();
}

/// The prompt, or its beginning: the tokens before `begin` in one batch, the others one by one.
std::vector<Batch> singly(std::size_t begin, std::size_t end = tiny_prompt().size()) {
  std::vector<std::int32_t> ids = tiny_prompt();
  ids.resize(end);
  std::vector<Batch> batches{text(std::span(ids).first(begin), 0)};
  for (std::size_t i = begin; i < ids.size(); ++i) batches.push_back(text(std::span(ids).subspan(i, 1), i));
  return batches;
}

TEST_P(Layouts, StagesAndGroups_giveTheBitsOfOneRank) {
  for (const char* kind : {"F32", "Q8_0", "Q4_K_M", "MXFP4_MOE"}) {
    const ModelFile model = open(kind);
    if (kind == std::string("MXFP4_MOE") && model.h.layer.experts == 0) continue;
    const std::int64_t layers = model.h.layers;
    const std::vector<LayerRange> whole{{0, layers}}, two{{0, 1}, {1, layers}}, three{{0, 1}, {1, 3}, {3, layers}};
    const Logits expected = compute(model, whole, singly(1), {});
    ASSERT_NE(expected.end()[-1], expected.end()[-2]);
    const auto tail = [&](std::size_t begin) {  // the results of the prompt's last token and of those after it
      return Logits(expected.begin() + static_cast<std::ptrdiff_t>((begin - 1) * static_cast<std::size_t>(model.h.vocabulary)),
                    expected.end());
    };
    EXPECT_EQ(compute(model, three, singly(1), {}), expected) << kind;
    EXPECT_EQ(compute(model, whole, singly(20), {}), tail(20)) << kind;
    EXPECT_EQ(compute(model, two, singly(23), {}), tail(23)) << kind;
    for (const std::vector<double>& shares : group_shares(model))
      EXPECT_EQ(together(model, two, singly(20), shares), tail(20)) << kind << ", " << shares.size() << " with " << shares[0];
  }
}

/// Emulated devices are slow, so there are few layers, and a text that is hardly longer than the windows; variants alternate between a
/// device alone and a group, with floats or blocks; in the everyday suite, each has one of these types.
TEST_P(Layouts, UnitsThatShareLayers_giveTheBitsOfOne) {
  constexpr std::int64_t kLayers = 7;
  const std::ptrdiff_t index = index_of(GetParam());
  for (const char* kind : {"F32", "Q4_K_M"}) {
    const bool floats = kind == std::string("F32"), in_group = floats == (index % 2 == 0);
    if (!test::thorough() && floats != (index % 4 < 2)) continue;
    ModelFile model = open(kind);
    const std::int64_t layers = model.h.layers = std::min(model.h.layers, kLayers);
    const std::vector<LayerRange> whole{{0, layers}}, two{{0, 1}, {1, layers}};
    const std::vector<Batch> batches = singly(static_cast<std::size_t>(kWindow) + 1, static_cast<std::size_t>(kWindow) + 3);
    const Logits expected = compute(model, whole, batches, {});
    if (in_group) {
      EXPECT_EQ(together(model, two, batches, {0.6, 0.4}, kUnits.back()), expected) << kind << ", a group";
    }
    for (const std::string& units : kUnits) {
      if (in_group && units.size() == 1) continue;
      const auto unit = make_units(units);
      EXPECT_EQ(compute(*unit, model, two, batches, {}), expected) << kind << ", units " << units;
    }
  }
}

TEST_P(Layouts, GuessesInATree_haveTheBitsOfTheirOwnText) {
  const ModelFile model = open("Q8_0");
  const std::vector<LayerRange> whole{{0, model.h.layers}};
  const std::vector<std::int32_t> ids = tiny_prompt();
  const auto end = static_cast<std::int32_t>(ids.size());
  // After token 300: either 400 and 401, or 402.
  const Batch tree{
      {300, 400, 401, 402}, {{end, -1, {0, 4}}, {end + 1, 0, {1, 2}}, {end + 2, 1, {1, 2}}, {end + 1, 0, {2, 3}}}, {0, 1, 2, 3}};
  const Logits found = compute(model, whole, {text(ids, 0), tree}, {});
  const auto row = [&](std::size_t i) {
    const auto n = static_cast<std::ptrdiff_t>(model.h.vocabulary), at = static_cast<std::ptrdiff_t>(i + 1) * n;
    return Logits(found.begin() + at, found.begin() + at + n);
  };
  const auto alone = [&](std::vector<std::int32_t> more) {
    std::vector<std::int32_t> all = ids;
    all.insert(all.end(), more.begin(), more.end());
    return compute(model, whole, {text(all, 0)}, {});
  };
  EXPECT_EQ(row(1), alone({300, 400}));
  EXPECT_EQ(row(2), alone({300, 400, 401}));
  EXPECT_EQ(row(3), alone({300, 402}));
  EXPECT_NE(row(3), row(1));
}

/// Guesses of several runs below one another, of which one path becomes text.
TEST_P(Layouts, GuessesThatBecomeText_haveTheBitsOfTheText) {
  const ModelFile model = open("Q8_0");
  const std::vector<LayerRange> whole{{0, model.h.layers}}, two{{0, 1}, {1, model.h.layers}};
  const std::vector<std::int32_t> ids = tiny_prompt();
  const auto end = static_cast<std::int32_t>(ids.size());
  const std::vector<Batch> batches{text(ids, 0),
                                   {{300}, {{end, -1, {0, 1}}}, {0}},
                                   {{400, 402}, {{end + 1, -1, {1, 2}}, {end + 1, -1, {2, 3}}}, {0, 1}},
                                   {{401, 403}, {{end + 2, -1, {1, 2}}, {end + 2, -1, {2, 3}}}, {0, 1}},
                                   {{404}, {{end + 3, -1, {0, 1}}}, {0}}};
  // Before the third and the fourth of these, guesses get the text before them; before the last, 402 and 403 become text.
  const std::vector<std::vector<CacheOperation>> before{{},
                                                        {CacheOperation::remove({1, 4}, {})},
                                                        {CacheOperation::copy(0, {1, 3}, {})},
                                                        {},
                                                        {CacheOperation::copy(2, {0, 1}, {end + 1, end + 3})}};
  std::vector<std::int32_t> all = ids;
  for (const std::int32_t id : {300, 402, 403, 404}) all.push_back(id);
  const Logits expected = compute(model, whole, {text(all, 0)}, {});
  const auto last = [&](const Logits& found) { return Logits(found.end() - static_cast<std::ptrdiff_t>(model.h.vocabulary), found.end()); };
  for (const std::vector<LayerRange>& ranges : {whole, two}) EXPECT_EQ(last(compute(model, ranges, batches, {}, 0, before)), expected);
  if (!model.h.is_recurrent()) return;
  for (const std::vector<double>& shares : group_shares(model))
    EXPECT_EQ(last(together(model, two, batches, shares, "c", before)), expected) << shares.size() << " with " << shares[0];
  const auto unit = make_units(kUnits.front());
  EXPECT_EQ(last(compute(*unit, model, two, batches, {}, 0, before)), expected) << "units " << kUnits.front();
}

TEST_P(Layouts, ARunThatIsLeft_changesNothing) {
  const ModelFile model = open("Q8_0");
  const std::vector<std::int32_t> ids = tiny_prompt();
  const auto end = static_cast<std::int32_t>(ids.size());
  CpuUnit unit({-1}, cpu::choose_isa());
  TransformerStage stage(model.file, model.h, {0, model.h.layers}, ContextOptions{128, 4, CacheType::kF16}, unit);
  const auto run = [&](const Batch& batch, bool stops) {
    const std::atomic<bool> stop{stops};
    stage.start({batch.tokens, {}, batch.placements, batch.logit_rows}, &stop);
    finish(unit);
    EXPECT_EQ(stage.was_stopped(), stops);
    return stops ? Logits{} : Logits(stage.logits().begin(), stage.logits().end());
  };
  const Batch first = text(ids, 0), next = text(std::vector<std::int32_t>{300}, static_cast<std::size_t>(end));
  run(first, false);
  run(text(std::vector<std::int32_t>{401, 402}, static_cast<std::size_t>(end)), true);
  stage.cells().remove({0, 4}, {end, kUnbounded});
  const Logits found = run(next, false);
  std::vector<std::int32_t> all = ids;
  all.push_back(300);
  EXPECT_EQ(found, compute(model, {{0, model.h.layers}}, {text(all, 0)}, {}));
}

/// One member has computed the first layer's state when it learns that the other has left the run.
TEST_P(Layouts, ARunThatAMemberLeaves_changesNoState) {
  const ModelFile model = open("Q8_0");
  if (!model.h.is_recurrent()) return;
  const std::vector<std::int32_t> ids = tiny_prompt();
  const auto end = static_cast<std::int32_t>(ids.size());
  const std::vector<double> shares{2, 1};
  LocalGroup group(2);
  std::vector<Logits> parts(2);
  std::vector<std::thread> threads;
  for (int m = 0; m < 2; ++m) {
    threads.emplace_back([&, m] {
      const auto exchange = group.member(m);
      CpuUnit unit({-1}, cpu::choose_isa());
      TransformerStage stage(model.file, model.h, {0, model.h.layers},
                             ContextOptions{128, 4, CacheType::kF16, false, {shares, m, exchange.get()}}, unit);
      const auto run = [&](const Batch& batch, bool stops) {
        const std::atomic<bool> stop{stops && m == 1};
        stage.start({batch.tokens, {}, batch.placements, batch.logit_rows}, &stop);
        finish(unit);
        EXPECT_EQ(stage.was_stopped(), stops);
      };
      run(text(ids, 0), false);
      run(text(std::vector<std::int32_t>{401, 402}, static_cast<std::size_t>(end)), true);
      stage.cells().remove({0, 4}, {end, kUnbounded});
      run(text(std::vector<std::int32_t>{300}, static_cast<std::size_t>(end)), false);
      parts[static_cast<std::size_t>(m)].assign(stage.logits().begin(), stage.logits().end());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::int32_t> all = ids;
  all.push_back(300);
  parts[0].insert(parts[0].end(), parts[1].begin(), parts[1].end());
  EXPECT_EQ(parts[0], compute(model, {{0, model.h.layers}}, {text(all, 0)}, {}));
}

TEST_P(Layouts, CellsOutOfTheWindow_areUsedAgainWithTheSameBits) {
  ModelFile model = open("Q8_0");
  if (GetParam() == "llama" || model.h.chunked) model.h.layer.window = kWindow;  // llama: for every layer
  if (model.h.layer.window == 0) return;
  constexpr std::size_t kRows = 9;
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 4; ++i) std::ranges::copy(tiny_prompt(), std::back_inserter(ids));
  std::vector<Batch> batches;
  for (std::size_t at = 0; at < ids.size(); at += at < 72 ? kRows : 1)
    batches.push_back(text(std::span(ids).subspan(at, at < 72 ? kRows : 1), at));
  const auto end = static_cast<std::int32_t>(ids.size());
  batches.push_back({{300, 400, 402}, {{end, -1, {0, 4}}, {end + 1, 0, {1, 2}}, {end + 1, 0, {2, 3}}}, {0, 1, 2}});
  const std::vector<LayerRange> whole{{0, model.h.layers}}, two{{0, 1}, {1, model.h.layers}};
  const Logits expected = compute(model, whole, batches, {});
  const auto cells = static_cast<std::int32_t>(WindowCells::enough(kWindow, kRows, 0));
  EXPECT_EQ(compute(model, whole, batches, {}, cells), expected);
  EXPECT_EQ(compute(model, two, batches, {}, cells), expected);
}

/// Heads are padded to a size that every cache type can store.
TEST_P(Layouts, PaddedHeads_areStoredInEveryCacheType) {
  const ModelFile model = open("F32");
  if (model.h.padding == 0) return;
  const std::vector<LayerRange> whole{{0, model.h.layers}}, two{{0, 1}, {1, model.h.layers}};
  const Logits halves = compute(model, whole, singly(20), {});
  for (const CacheType cache : {CacheType::kF32, CacheType::kQ8_0}) {
    CpuUnit unit({-1}, cpu::choose_isa());
    const Logits found = compute(unit, model, whole, singly(20), {}, 0, {}, cache);
    EXPECT_EQ(compute(unit, model, two, singly(22), {}, 0, {}, cache), Logits(found.begin() + 2 * model.h.vocabulary, found.end()));
    EXPECT_NE(found, halves);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], halves[i], 0.5f);
  }
}

/// If every layer has chunks, nothing is left of those before but the angles of RoPE, which are relative.
TEST_F(LayoutsOfOne, Chunks_areTextsOfTheirOwn) {
  ModelFile model = open("F32", "llama4");
  model.h.layer.window = kWindow;
  model.h.windows.assign(static_cast<std::size_t>(model.h.layers), true);
  const std::vector<LayerRange> whole{{0, model.h.layers}};
  const std::vector<std::int32_t> prompt = tiny_prompt();
  const std::span<const std::int32_t> ids(prompt);
  const Logits found = compute(model, whole, {text(ids, 0)}, {}), alone = compute(model, whole, {text(ids.subspan(kWindow), 0)}, {});
  ASSERT_EQ(found.size(), alone.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], alone[i], 1e-2) << i;
  EXPECT_NE(found, alone);
  model.h.chunked = false;
  const Logits moving = compute(model, whole, {text(ids, 0)}, {});
  EXPECT_GT(std::abs(moving[300] - found[300]), 0.1f);
}

INSTANTIATE_TEST_SUITE_P(Families, Layouts, ::testing::ValuesIn(variant_names()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace yamata::families_test
