// Memory of layers with a window and of devices.
#include "mpi/planning/memory_plan.hpp"

#include <gtest/gtest.h>

#include "cache/state_cells.hpp"
#include "node/device_scratch.hpp"
#include "node/error.hpp"
#include "src/model/weights.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata {
namespace {

class WindowPlan : public testing::Test {
 protected:
  WindowPlan() : model_(ModelFile::open(test::source_path("/models/tales-target-q8_0.gguf"))) {
    model_.h.layer.window = 64, model_.h.window_pattern = 2;  // in every second of 8 layers
  }
  RankBytes bytes(LayerRange layers, std::int32_t window_cells) const {
    return rank_bytes(model_, layers, Shard(model_.h), CacheType::kF16, 64, 1, window_cells);
  }

  ModelFile model_;
};

TEST_F(WindowPlan, Cells_areTheWindowARunAndItsGuesses) {
  EXPECT_EQ(window_cells(model_.h, 4096, 0, 64), 63 + 64);
  EXPECT_EQ(window_cells(model_.h, 4096, 128, 64), 63 + 64 + 256);
  EXPECT_EQ(window_cells(model_.h, 4096, 0, 1), 63 + 16) << "what a draft has missed it reads at once";
  EXPECT_EQ(window_cells(model_.h, 127, 0, 64), 0) << "no fewer than all";
  EXPECT_EQ(window_cells(model_.h, 128, 0, 64), 127);
  EXPECT_EQ(window_cells(model_.h, 4096, 128, 64, false, {8, 1, 4}), 12 * 63 + 64 + 256) << "8 texts and 4 checkpoints";
  EXPECT_EQ(window_cells(model_.h, 4096, 0, 1, false, {20, 1, 0}), 20 * 63 + 20) << "a run of all texts";
  model_.h.layer.window = 0;
  EXPECT_EQ(window_cells(model_.h, 4096, 0, 64), 0);
}

TEST_F(WindowPlan, RankBytes_countOnlyOtherLayersPerCell) {
  const std::uint64_t cell = KvStore::bytes_for(Shard(model_.h).cache_shape(1), 1, CacheType::kF16);
  EXPECT_EQ(bytes({0, 8}, 127).cache(4096), 4 * cell * 4096 + 4 * cell * 127);
  EXPECT_EQ(bytes({0, 3}, 127).cache(4096), 1 * cell * 4096 + 2 * cell * 127);
  EXPECT_EQ(bytes({0, 8}, 0).cache(4096), 8 * cell * 4096);
}

TEST_F(WindowPlan, AHostThatIsTooSmall_isToldWhatFitsBesideWindows) {
  const ModelFile* const models[] = {&model_};
  wire::Start start;
  start.batch = 1;
  start.pipelines = {{.ranks = {0}, .layers = {{0, 8}}, .cells = 1 << 16, .window_cells = 127}};
  const std::vector<wire::Hello> hellos{{1, "", "small", "", {}, 8u << 20, 1, 0}};
  try {
    plan_memory(models, start, hellos);
    FAIL() << "it fits";
  } catch (const UsageError& error) {
    const std::string text = error.what();
    ASSERT_NE(text.find("-c "), std::string::npos) << text;
    start.pipelines[0].cells = std::stoi(text.substr(text.find("-c ") + 3));
    EXPECT_NO_THROW(plan_memory(models, start, hellos));
    ++start.pipelines[0].cells;
    EXPECT_THROW(plan_memory(models, start, hellos), UsageError);
  }
}

TEST_F(WindowPlan, WeightsFetchedToMemory_lieBesidePackedOnes_andMustFit) {
  const ModelFile* const models[] = {&model_};
  wire::Start start;
  start.batch = 1;
  start.pipelines = {{.ranks = {0}, .layers = {{0, 8}}, .cells = 256}};
  const RankBytes bytes = rank_bytes(model_, {0, 8}, Shard(model_.h), start.cache_types, 1, 1, 0);
  const std::uint64_t once = bytes.cache(256) + bytes.buffers + bytes.weights, twice = once + bytes.weights;
  const auto packed = [&](std::uint64_t available, bool to_memory) {
    std::vector<wire::Hello> hellos{{1, "", "small", "", {}, available, 1, 0}};
    hellos[0].fetches_to_memory = to_memory ? 1 : 0;
    plan_packing(models, start, hellos, true);
    EXPECT_TRUE(plan_memory(models, start, hellos).empty() || !to_memory);
    return start.pipelines[0].packed[0] == static_cast<std::uint8_t>(wire::Packed::kAll);
  };
  EXPECT_TRUE(packed(twice, true));
  EXPECT_FALSE(packed(twice - 1, true)) << "then they are computed as they are";
  EXPECT_TRUE(packed(once, false));
  EXPECT_FALSE(packed(once, true));
  EXPECT_FALSE(packed(once - 1, false)) << "read from disk";
  EXPECT_THROW(packed(once - 1, true), UsageError) << "there is nothing to read them from";
}

/// A table of n-gram embeddings needs no memory, except where the file is in memory.
TEST(MemoryPlan, TablesThatStayInTheFile_needMemoryIfTheFileIsInMemory) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "model.gguf";
  families_test::write_tiny_model("qwen4exp-ngrams", TensorType::F32, path);
  const ModelFile model = ModelFile::open(path);
  const ModelFile* const models[] = {&model};
  wire::Start start;
  start.cache_types = CacheType::kF16;
  start.batch = 1;
  start.pipelines = {{.ranks = {0}, .layers = {{0, 4}}, .cells = 256}};
  const RankBytes bytes = rank_bytes(model, {0, 4}, Shard(model.h), start.cache_types, 1, 1, 0);
  EXPECT_EQ(bytes.in_file, model.file.tensor("per_layer_token_embd.weight").bytes);
  std::vector<wire::Hello> hellos{{1, "", "small", "", {}, bytes.cache(256) + bytes.buffers + bytes.weights, 1, 0}};
  EXPECT_TRUE(plan_memory(models, start, hellos).empty());
  hellos[0].fetches_to_memory = 1;
  EXPECT_THROW(plan_memory(models, start, hellos), UsageError);
  hellos[0].available_bytes += bytes.in_file;
  EXPECT_NO_THROW(plan_memory(models, start, hellos));
}

/// A rank whose device computes its first layers alone.
class DevicePlan : public testing::Test {
 protected:
  DevicePlan() : model_(ModelFile::open(test::source_path("/models/tales-target-q8_0.gguf"))) {
    start_.batch = 8;
    start_.pipelines = {{.ranks = {0}, .layers = {{0, 8}}, .cells = 256}};
    hello_.host = "pc", hello_.device = "cpu+cuda:0", hello_.available_bytes = 1u << 30, hello_.threads = 1;
  }
  std::string fault_with(std::int32_t layers, std::uint64_t device_bytes) {
    hello_.device_layers = layers, hello_.device_bytes = device_bytes;
    try {
      plan_memory(models_, start_, {hello_});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
  /// Bytes of layers alone, without the output, and of what the device needs in addition.
  std::uint64_t device_needs(std::int64_t layers) const {
    const RankBytes bytes = rank_bytes(model_, {1, 1 + layers}, Shard(model_.h), CacheType::kF16, 8, 1);
    return bytes.weights + bytes.cache(256) +
           device_scratch_bytes({.rows = 8, .widest = model_.h.widest_input(), .heads = model_.h.heads, .head_dim = model_.h.head_dim},
                                256);
  }

  ModelFile model_;
  const ModelFile* const models_[1] = {&model_};
  wire::Start start_;
  wire::Hello hello_;
};

TEST_F(DevicePlan, wholeLayersThatDoNotFit_areRefusedWithHowManyWould) {
  for (std::int64_t layers = 1; layers < 7; ++layers)
    EXPECT_EQ(fault_with(static_cast<std::int32_t>(layers), device_needs(layers)), "") << layers;
  const std::string fault = fault_with(6, device_needs(3));
  EXPECT_NE(fault.find("6 whole layers take "), std::string::npos) << fault;
  EXPECT_NE(fault.find("at most -ngl 3 fits"), std::string::npos) << fault;
  EXPECT_NE(fault_with(99, device_needs(5)).find("8 whole layers take "), std::string::npos) << "no more than there are";
  EXPECT_NE(fault_with(1, 1).find("1 whole layer takes "), std::string::npos);
  EXPECT_NE(fault_with(1, 1).find("has 0 KiB free; none fits: leave out -ngl"), std::string::npos) << fault_with(1, 1);
  EXPECT_NE(fault_with(1, 700 << 10).find("has 700 KiB free"), std::string::npos) << "no 0 MiB";
  EXPECT_GT(device_needs(0), 16u << 20) << "weights on their way to the device";
  EXPECT_EQ(fault_with(99, 1u << 30), "");
}

/// Beside the layers that stay on the device, there is space for two others, and the cache of all.
TEST_F(DevicePlan, copiedLayers_needMemoryForTwoOfThem_andTheHosts) {
  const auto least = [&](std::int32_t layers, std::int32_t copies) {
    hello_.device_copies = copies;
    std::uint64_t fits = 1u << 30;
    for (std::uint64_t step = fits / 2; step > 0; step /= 2)
      if (fault_with(layers, fits - step).empty()) fits -= step;
    return fits;
  };
  std::uint64_t matrices = 0;
  for (const FoundTensor& found : find_tensors(model_.file, model_.h, {1, 2}, Shard(model_.h)))
    matrices += found.layer == 1 && found.rows > 1 ? found.held_bytes() : 0;
  EXPECT_GT(matrices, 1u << 19);
  const std::uint64_t all = least(8, 0);
  EXPECT_EQ(least(8, 1), all);
  EXPECT_EQ(least(7, 1), all) << "of one there is nothing else to copy";
  EXPECT_EQ(least(6, 1), all);
  EXPECT_EQ(least(5, 1), all - matrices);
  EXPECT_EQ(least(1, 1), all - 5 * matrices);
  const std::string fault = fault_with(4, least(3, 1));
  EXPECT_NE(fault.find("4 whole layers and copied layers take "), std::string::npos) << fault;
  EXPECT_NE(fault.find("at most -ngl 3 fits"), std::string::npos) << fault;
  const auto planned = [&](std::uint64_t device_bytes) {
    hello_.device_layers = wire::kLayersThatFit, hello_.device_bytes = device_bytes;
    plan_device_layers(models_, start_, {hello_});
    return start_.pipelines.front().first_layers.front();
  };
  const auto with_reserve = [](std::uint64_t bytes) { return (bytes + (4u << 20)) * 32 / 31 + 1; };
  EXPECT_EQ(planned(with_reserve(least(3, 1))), 3);
  EXPECT_EQ(planned(with_reserve(all - 6 * matrices)), 0);
  EXPECT_NO_THROW(plan_memory(models_, start_, {hello_}));
  EXPECT_EQ(planned(all - 7 * matrices), 0);
  EXPECT_THROW(plan_memory(models_, start_, {hello_}), UsageError) << "two do not fit";
}

TEST_F(DevicePlan, layersThatFit_areAsManyAsTheDeviceHoldsBesideItsDrafts) {
  const RankBytes heads{.weights = 3u << 20, .cache_per_cell = 1024, .buffers = 1u << 16};
  start_.pipelines.push_back({.model = 1, .ranks = {0}, .layers = {{0, 1}}, .cells = 256});
  const auto fit = [&](std::uint64_t device_bytes, std::int32_t drafts) {
    hello_.device_layers = wire::kLayersThatFit, hello_.device_bytes = device_bytes, hello_.device_drafts = drafts;
    plan_device_layers(models_, start_, {hello_}, {&heads, 1});
    EXPECT_NO_THROW(plan_memory(models_, start_, {hello_}, {&heads, 1}));
    return start_.pipelines.front().first_layers.front();
  };
  const std::uint64_t drafts = heads.weights + heads.cache(256) + heads.buffers + device_needs(0);  // and their scratch memory
  const auto with_reserve = [](std::uint64_t bytes) { return (bytes + (4u << 20)) * 32 / 31 + 1; };
  for (const std::int64_t layers : {1, 3, 6}) {
    const std::uint64_t bytes = device_needs(layers);
    EXPECT_EQ(fit(with_reserve(bytes), 0), layers);
    EXPECT_EQ(fit(with_reserve(bytes) - 64, 0), layers - 1) << "a part is left free";
    EXPECT_EQ(fit(with_reserve(bytes + drafts), 1), layers);
    EXPECT_EQ(fit(with_reserve(bytes + drafts) - 64, 1), layers - 1);
  }
  EXPECT_EQ(fit(1, 0), 0);
  EXPECT_EQ(fit(1u << 30, 1), 8);
  hello_.device_layers = 5;
  plan_device_layers(models_, start_, {hello_}, {&heads, 1});
  EXPECT_EQ(start_.pipelines.front().first_layers, std::vector<std::int32_t>{5}) << "as told";
}

TEST_F(DevicePlan, draftsOnTheSameDevice_countThereAndNotOnTheHost) {
  const RankBytes heads{.weights = 5u << 20, .cache_per_cell = 1024, .buffers = 0};
  start_.pipelines.push_back({.model = 1, .ranks = {0}, .layers = {{0, 1}}, .cells = 256});
  const auto fault = [&](std::uint64_t device_bytes, std::uint64_t host_bytes) -> std::string {
    hello_.device_layers = 3, hello_.device_drafts = 1, hello_.device_bytes = device_bytes, hello_.available_bytes = host_bytes;
    try {
      const std::vector<std::string> warnings = plan_memory(models_, start_, {hello_}, {&heads, 1});
      return warnings.empty() ? "" : warnings.front();
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  const std::uint64_t both = device_needs(3) + heads.weights + heads.cache(256) + device_needs(0);
  const RankBytes all = rank_bytes(model_, {0, 8}, Shard(model_.h), CacheType::kF16, 8, 1);
  const std::uint64_t rest =
      all.weights + all.cache(256) + all.buffers - 3 * rank_bytes(model_, {1, 2}, Shard(model_.h), CacheType::kF16, 8, 1).weights;
  EXPECT_EQ(fault(both, rest), "");
  EXPECT_NE(fault(both - 1, rest).find("3 whole layers and what drafts there take "), std::string::npos) << fault(both - 1, rest);
  EXPECT_NE(fault(both - 1, rest).find("at most -ngl 2 fits"), std::string::npos);
  hello_.device_is_unified = 1;
  EXPECT_NE(fault(both, rest).find("from disk"), std::string::npos) << "one memory";
}

TEST_F(DevicePlan, draftsThatDoNotFitOnADevice_areRefused_evenWithoutLayersThere) {
  const RankBytes heads{.weights = 5u << 20, .cache_per_cell = 1024, .buffers = 0};
  start_.pipelines.push_back({.model = 1, .ranks = {0}, .layers = {{0, 1}}, .cells = 256});
  const std::uint64_t drafts = heads.weights + heads.cache(256) + device_needs(0);
  const auto fault = [&](std::uint64_t device_bytes) -> std::string {
    hello_.device_layers = wire::kLayersThatFit, hello_.device_drafts = 1, hello_.device_bytes = device_bytes;
    plan_device_layers(models_, start_, {hello_}, {&heads, 1});
    EXPECT_EQ(start_.pipelines.front().first_layers.front(), 0);
    try {
      plan_memory(models_, start_, {hello_}, {&heads, 1});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(fault(drafts), "");
  EXPECT_NE(fault(drafts - 1).find("what drafts there takes "), std::string::npos) << fault(drafts - 1);
  EXPECT_NE(fault(drafts - 1).find("the drafts alone do not fit"), std::string::npos) << fault(drafts - 1);
}

TEST_F(DevicePlan, aHost_holdsOnlyTheOtherLayersBesideADeviceWithMemoryOfItsOwn) {
  const RankBytes all = rank_bytes(model_, {0, 8}, Shard(model_.h), CacheType::kF16, 8, 1);
  const auto packs = [&](std::int32_t layers, std::int32_t unified, std::uint64_t bytes) {
    hello_.device_layers = layers, hello_.device_is_unified = unified, hello_.device_bytes = 1u << 30, hello_.available_bytes = bytes;
    plan_packing(models_, start_, {hello_}, true);
    return static_cast<wire::Packed>(start_.pipelines.front().packed.front());
  };
  using enum wire::Packed;
  const std::uint64_t needed = all.weights + all.cache(256) + all.buffers,
                      layer = rank_bytes(model_, {1, 2}, Shard(model_.h), CacheType::kF16, 8, 1).weights;
  EXPECT_EQ(packs(0, 0, needed + device_bytes(model_, {0, 8}, Shard(model_.h), CacheType::kF16, 8, 256).buffers), kAll);
  EXPECT_EQ(packs(0, 0, needed), kNone) << "what a device needs beside weights and cache";
  EXPECT_EQ(packs(3, 1, needed - 1), kNone) << "one memory";
  EXPECT_EQ(packs(3, 0, needed - 3 * layer), kAll);
  EXPECT_EQ(packs(2, 0, needed - 3 * layer), kFirstLayers) << "the device's are packed there in any case";
  hello_.device_copies = 1;
  EXPECT_EQ(packs(3, 0, needed - 3 * layer - all.cache(256)), kAll) << "the cache of copied layers is on the device";
  EXPECT_EQ(packs(3, 0, needed - 4 * layer - all.cache(256)), kFirstLayers) << "their weights are the host's";
}

/// Bytes that the host keeps of a model whose first layers are on a device.
std::uint64_t kept(const ModelFile& model, std::int64_t first) {
  return rank_bytes(model, {0, model.h.layers}, Shard(model.h), CacheType::kF16, 8, 1).weights -
         weights_that_move(model, {0, first}, Shard(model.h));
}

TEST_F(DevicePlan, anEmbedding_staysWithTheHost_beItTheOutputToo) {
  const test::TemporaryFolder folder;
  families_test::write_tiny_model("gemma2", TensorType::F16, folder / "tied.gguf");
  const ModelFile tied = ModelFile::open(folder / "tied.gguf");
  ASSERT_EQ(tied.file.find("output.weight"), nullptr);
  for (const ModelFile* model : {static_cast<const ModelFile*>(&model_), &tied}) {
    const Shard whole(model->h);
    std::uint64_t embedding = 0, output = 0;
    for (const FoundTensor& found : find_tensors(model->file, model->h, {0, model->h.layers}, whole)) {
      embedding += found.role == TensorRole::kEmbedding ? found.held_bytes() : 0;
      output += found.role == TensorRole::kOutput ? found.held_bytes() : 0;
    }
    ASSERT_GT(embedding, 0u);
    EXPECT_EQ(kept(*model, model->h.layers), embedding) << "and nothing but it";
    EXPECT_EQ(kept(*model, 0) - kept(*model, 1), layer_bytes(model->file, model->h, 0)) << "it does not go with the first layer";
    EXPECT_GE(device_bytes(*model, {0, model->h.layers}, whole, CacheType::kF16, 8, 256).weights, output) << "of its own";
  }
}

ModelFile model_with_states() {
  const test::TemporaryFolder folder;
  families_test::write_tiny_model("qwen35", TensorType::F16, folder / "states.gguf");
  return ModelFile::open(folder / "states.gguf");
}

TEST(Checkpoints, AreHalvedUntilTheyFit) {
  const ModelFile model = model_with_states();
  const ModelFile* const models[] = {&model};
  wire::Start start;
  start.batch = 8;
  start.pipelines = {{.ranks = {0}, .layers = {{0, model.h.layers}}, .cells = 64, .sequences = 20, .window_cells = 1}};
  const auto bytes_of = [&](std::int32_t states) {
    const RankBytes bytes =
        rank_bytes(model, {0, model.h.layers}, Shard(model.h), start.cache_types, start.batch, 1, 1, {.checkpoints = states});
    return bytes.weights + bytes.cache(64) + bytes.buffers;
  };
  const auto kept = [&](std::int32_t states, std::uint64_t available) {
    start.pipelines.front().checkpoints = states;
    const std::vector<wire::Hello> hellos{{1, "", "small", "", {}, available, 1, 0}};
    plan_checkpoints(models, start, hellos);
    EXPECT_TRUE(start.pipelines.front().checkpoints == 0 || fits_memory(models, start, hellos));
    return start.pipelines.front().checkpoints;
  };
  ASSERT_GT(bytes_of(1), bytes_of(0));
  EXPECT_EQ(kept(12, bytes_of(12)), 12);
  EXPECT_EQ(kept(12, bytes_of(12) - 1), 6);
  EXPECT_EQ(kept(12, bytes_of(6) - 1), 3);
  EXPECT_EQ(kept(12, bytes_of(0)), 0);
  EXPECT_EQ(kept(12, 1), 0) << "nothing fits, which is refused elsewhere";
}

TEST(Checkpoints, OfWindows_takeTheirCellsWithThem) {
  const test::TemporaryFolder folder;
  families_test::write_tiny_model("gemma3", TensorType::F16, folder / "windows.gguf");
  const ModelFile model = ModelFile::open(folder / "windows.gguf");
  const ModelFile* const models[] = {&model};
  wire::Start start;
  start.batch = 8;
  start.pipelines = {{.ranks = {0}, .layers = {{0, model.h.layers}}, .cells = 4096, .sequences = 20, .slots = 2}};
  wire::PipelinePlan& target = start.pipelines.front();
  const auto cells = [&](std::int32_t checkpoints) {
    return window_cells(model.h, target.cells, 3, start.batch, false, {2, 1, checkpoints});
  };
  const auto fit = [&](std::uint64_t available) {
    target.checkpoints = 8, target.window_cells = cells(8);
    plan_checkpoints(models, start, {{1, "", "small", "", {}, available, 1, 0}});
    EXPECT_EQ(target.window_cells, cells(target.checkpoints));
    return target.checkpoints;
  };
  const RankBytes bytes = rank_bytes(model, {0, model.h.layers}, Shard(model.h), start.cache_types, start.batch, 1, cells(4), {2, 1, 4});
  const std::uint64_t with_four = bytes.weights + bytes.cache(4096) + bytes.buffers;
  EXPECT_EQ(fit(1ull << 40), 8);
  EXPECT_EQ(fit(with_four), 4);
  EXPECT_EQ(fit(with_four - 1), 2);
  EXPECT_EQ(fit(1), 0);
}

TEST(RankBytes, States_takeAsMuchForAnyContext) {
  const ModelFile model = model_with_states();
  const LayerRange all{0, model.h.layers};
  ASSERT_EQ(recurrent_layers(model.h, all), 4);
  const std::int32_t inputs = window_cells(model.h, 4096, 48, 64);
  EXPECT_EQ(inputs, 2 * 48 + 4) << "of each guess, and of as many tokens before a likely one";
  EXPECT_EQ(window_cells(model.h, 4096, 48, 64, true), 4 * 48 + 4) << "a draft's guesses may all be accepted before it goes on";
  EXPECT_EQ(window_cells(model.h, 4096, 0, 64), 1) << "0 would mean as many as cells";
  EXPECT_EQ(window_cells(model.h, 4096, 48, 64, false, {8, 1, 4}), 2 * 48 + 8 * 4) << "guesses are those of all texts together";
  const RankBytes bytes = rank_bytes(model, all, Shard(model.h), CacheType::kF16, 8, 1, inputs);
  EXPECT_EQ(bytes.window_cache, StateStore::bytes_for(model.h.state, 4, {inputs, StateCells::states({})}));
  EXPECT_EQ(bytes.cache_per_cell, 2u * 3 * 32 * 2) << "keys and values of the layer with attention";
  const RankBytes kept = rank_bytes(model, all, Shard(model.h), CacheType::kF16, 8, 1, inputs, {.checkpoints = 5});
  const auto scratch = [&](std::int32_t with) { return device_bytes(model, all, Shard(model.h), CacheType::kF16, 8, 256, with).buffers; };
  EXPECT_EQ(scratch(inputs) - scratch(inputs / 2), 13u * 4 * static_cast<std::uint64_t>(model.h.state.state_floats())) << "put aside";
  EXPECT_EQ(kept.window_cache - bytes.window_cache, StateStore::bytes_for(model.h.state, 4, {0, 5})) << "of checkpoints";
  const RankBytes texts = rank_bytes(model, all, Shard(model.h), CacheType::kF16, 8, 1, inputs, {3, 1, 0});
  EXPECT_EQ(texts.window_cache - bytes.window_cache, StateStore::bytes_for(model.h.state, 4, {0, 4})) << "of two more texts";
}

}  // namespace
}  // namespace yamata
