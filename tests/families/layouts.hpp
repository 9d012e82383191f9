#pragma once
// Stages, groups and units that compute a small model, and the bits of its logits.
#include <gtest/gtest.h>

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

using Logits = std::vector<float>;

/// Rows to compute: tokens of a text from `position` on, or as `placements` say.
struct Batch {
  std::vector<std::int32_t> tokens;
  std::vector<Placement> placements;
  std::vector<std::int32_t> logit_rows;
  std::int32_t likely_row = -1;
};

inline Batch text(std::span<const std::int32_t> tokens, std::size_t position) {
  Batch batch{{tokens.begin(), tokens.end()}, {}, {static_cast<std::int32_t>(tokens.size()) - 1}};
  for (std::size_t i = 0; i < tokens.size(); ++i) batch.placements.push_back({static_cast<std::int32_t>(position + i), -1, {0, 4}});
  return batch;
}

#ifdef YAMATA_EMULATED_DEVICE
inline std::unique_ptr<ComputeUnit> device() {
  return std::make_unique<cuda::CudaUnit>(std::make_unique<cuda::EmulatedDevice>(cuda::EmulatedDeviceOptions{.unified = false}));
}
inline const std::vector<std::string> kUnits{"cc", "d", "cd"};
#else
inline std::unique_ptr<ComputeUnit> device() { return nullptr; }
inline const std::vector<std::string> kUnits{"cc", "ccc"};
#endif

/// Each letter is a unit: c a core, d an emulated device. Several units share every layer; later ones have larger shares.
inline std::unique_ptr<ComputeUnit> make_units(const std::string& letters) {
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
                        std::int32_t window_cells = 0, const std::vector<std::vector<CacheOperation>>& before = {},
                        const TextSlots& texts = {}) {
    CpuUnit unit({-1}, cpu::choose_isa());
    return compute(unit, model, ranges, batches, group, window_cells, before, CacheType::kF16, 0, texts);
  }
  static Logits compute(ComputeUnit& unit, const ModelFile& model, const std::vector<LayerRange>& ranges, const std::vector<Batch>& batches,
                        GroupMember group, std::int32_t window_cells = 0, const std::vector<std::vector<CacheOperation>>& before = {},
                        CacheType cache = CacheType::kF16, std::int64_t first_layers = 0, const TextSlots& texts = {}) {
    std::deque<TransformerStage> stages;
    for (const LayerRange range : ranges) {
      stages.emplace_back(model.file, model.h, range, ContextOptions{128, 4, cache, true, group, 0, window_cells, texts, first_layers},
                          unit);
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
        stage.start({batch.tokens, activations, batch.placements, batch.logit_rows, batch.likely_row}, nullptr);
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
                         const std::vector<std::vector<CacheOperation>>& before = {}, const TextSlots& texts = {}) {
    LocalGroup group(static_cast<int>(shares.size()));
    std::vector<Logits> parts(shares.size());
    std::vector<std::thread> threads;
    for (int m = 0; m < std::ssize(shares); ++m) {
      threads.emplace_back([&, m] {
        const auto exchange = group.member(m);
        const auto unit = make_units(units);
        parts[static_cast<std::size_t>(m)] =
            compute(*unit, model, ranges, batches, {shares, m, exchange.get()}, 0, before, CacheType::kF16, 0, texts);
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

/// The prompt, or its beginning: the tokens before `begin` in one batch, the others one by one.
inline std::vector<Batch> singly(std::size_t begin, std::size_t end = tiny_prompt().size()) {
  std::vector<std::int32_t> ids = tiny_prompt();
  ids.resize(end);
  std::vector<Batch> batches{text(std::span(ids).first(begin), 0)};
  for (std::size_t i = begin; i < ids.size(); ++i) batches.push_back(text(std::span(ids).subspan(i, 1), i));
  return batches;
}

}  // namespace yamata::families_test
