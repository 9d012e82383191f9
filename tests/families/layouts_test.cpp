// For every family: stages, groups, chunks and trees of guesses give the same bits as one rank that computes token by token.
#include "tests/families/layouts.hpp"

#include <atomic>
#include <cmath>

#include "tests/thorough.hpp"

namespace yamata::families_test {
namespace {

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

/// The types that a variant is tested with: all, or one of three in the everyday suite.
std::vector<std::string> types_of(const std::string& variant) {
  std::vector<std::string> types{"F32", "Q8_0", "Q4_K_M"};
  if (test::thorough()) return types;
  return {types[static_cast<std::size_t>(index_of(variant) % 3)]};
}

TEST_P(Layouts, StagesAndGroups_giveTheBitsOfOneRank) {
  std::vector<std::string> types = types_of(GetParam());
  if (!test::sanitized()) types.push_back("MXFP4_MOE");
  for (const std::string& kind : types) {
    const ModelFile model = open(kind);
    if (kind == "MXFP4_MOE" && model.h.layer.experts == 0) continue;
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
/// device alone and a group, with floats or blocks; in the everyday suite, every second four of them have one of these types each.
TEST_P(Layouts, UnitsThatShareLayers_giveTheBitsOfOne) {
  constexpr std::int64_t kLayers = 7;
  const std::ptrdiff_t index = index_of(GetParam());
  if (!test::thorough() && index % 8 >= 4) GTEST_SKIP() << "only in launch/test all";
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
  std::vector<Batch> batches{text(ids, 0),
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
  for (const std::int32_t likely_row : {-1, 0, 1}) {  // 0: its guesses are rejected
    batches[2].likely_row = batches[3].likely_row = likely_row;
    EXPECT_EQ(last(compute(model, two, batches, {}, 0, before)), expected) << "likely row " << likely_row;
    for (const std::vector<double>& shares : group_shares(model))
      EXPECT_EQ(last(together(model, two, batches, shares, "c", before)), expected) << shares.size() << " with " << shares[0];
    const auto unit = make_units(kUnits.front());
    EXPECT_EQ(last(compute(*unit, model, two, batches, {}, 0, before)), expected) << "units " << kUnits.front();
  }
}

/// A text is kept after its prompt and goes on; another follows, in as many runs as there are states; then a third goes on from the kept
/// one.
TEST_P(Layouts, TextsThatGoOnFromAKeptOne_haveTheBitsOfTheWholeText) {
  const ModelFile model = open("Q8_0");
  if (!model.h.is_recurrent()) return;
  const std::vector<LayerRange> whole{{0, model.h.layers}}, two{{0, 1}, {1, model.h.layers}};
  std::vector<std::int32_t> ids = tiny_prompt();
  constexpr SequenceRange kText{0, 1}, kKept{3, 4};
  std::vector<Batch> batches{text(ids, 0),
                             text(std::vector{300}, ids.size()),
                             text(std::vector{301, 302}, 0),
                             text(std::vector{304}, 2),
                             text(std::vector{305}, 3),
                             text(std::vector{303}, ids.size())};
  for (Batch& batch : batches) {
    for (Placement& token : batch.placements) token.sequences = kText;
  }
  const std::vector<std::vector<CacheOperation>> before{{},
                                                        {CacheOperation::copy(kText.begin, kKept, {})},
                                                        {CacheOperation::remove(kText, {})},
                                                        {},
                                                        {},
                                                        {CacheOperation::remove(kText, {}), CacheOperation::copy(kKept.begin, kText, {})}};
  ids.push_back(303);
  const Logits expected = compute(model, whole, {text(ids, 0)}, {});
  const auto last = [&](const Logits& found) { return Logits(found.end() - static_cast<std::ptrdiff_t>(model.h.vocabulary), found.end()); };
  for (const std::string& letters : {std::string("c"), kUnits.front(), kUnits.back()}) {
    const auto unit = make_units(letters);
    EXPECT_EQ(last(compute(*unit, model, two, batches, {}, 0, before, CacheType::kF16, 0, {.checkpoints = 1})), expected)
        << "units " << letters;
  }
  for (const std::vector<double>& shares : group_shares(model))
    EXPECT_EQ(last(together(model, two, batches, shares, "c", before, {.checkpoints = 1})), expected)
        << shares.size() << " with " << shares[0];
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

/// Adds a text's rows, of tokens from one to another, to a run; the logits of the last one are wanted.
void add_rows(Batch& batch, std::span<const std::int32_t> ids, std::size_t begin, std::size_t end, std::int32_t sequence) {
  for (std::size_t at = begin; at < end; ++at) {
    batch.tokens.push_back(ids[at]);
    batch.placements.push_back({static_cast<std::int32_t>(at), -1, {sequence, sequence + 1}});
  }
  batch.logit_rows.push_back(static_cast<std::int32_t>(batch.tokens.size()) - 1);
}

/// Prompts and single tokens; one text is longer than a window when the other begins.
TEST_P(Layouts, TextsThatShareRuns_haveTheBitsOfEachAlone) {
  ModelFile model = open("Q8_0");
  if (model.h.chunked) model.h.layer.window = kWindow;
  const std::vector<LayerRange> whole{{0, model.h.layers}}, two{{0, 1}, {1, model.h.layers}};
  const TextSlots texts{2, 2};
  const std::vector<std::int32_t> first = tiny_prompt(), second(first.rbegin(), first.rend());
  std::vector<Batch> batches(1);
  Logits expected;
  const Logits of_first = compute(model, whole, singly(1), {});
  std::vector<Batch> alone = singly(1);
  for (std::size_t at = 0; at < second.size(); ++at) alone[at].tokens = {second[at]};
  const Logits of_second = compute(model, whole, alone, {});
  const auto row = static_cast<std::ptrdiff_t>(model.h.vocabulary);
  const auto expect = [&](const Logits& from, std::size_t end) {
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(end - 1) * row;
    expected.insert(expected.end(), begin, begin + row);
  };
  const std::size_t begun = 18;
  add_rows(batches.front(), first, 0, begun, 0);
  expect(of_first, begun);
  for (std::size_t at = 0; begun + at < first.size(); ++at) {
    Batch& batch = batches.emplace_back();
    const std::size_t from = at == 0 ? 0 : 2 + at, to = 3 + at;  // a prompt of three tokens
    if (at % 2 == 0) add_rows(batch, second, from, to, 2), expect(of_second, to);
    add_rows(batch, first, begun + at, begun + at + 1, 0), expect(of_first, begun + at + 1);
    if (at % 2 == 1) add_rows(batch, second, from, to, 2), expect(of_second, to);
  }
  const auto in_windows = static_cast<std::int32_t>(WindowCells::enough(kWindow, static_cast<std::int64_t>(begun), 0, 2));
  const std::int32_t cells = model.h.layer.window > 0 ? in_windows : 0;
  EXPECT_EQ(compute(model, two, batches, {}, cells, {}, texts), expected);
  if (!model.h.is_recurrent() && !test::thorough()) return;
  const auto unit = make_units(kUnits.back());
  EXPECT_EQ(compute(*unit, model, two, batches, {}, cells, {}, CacheType::kF16, 0, texts), expected);
  for (const std::vector<double>& shares : group_shares(model))
    EXPECT_EQ(together(model, two, batches, shares, "c", {}, texts), expected) << shares.size() << " with " << shares[0];
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
