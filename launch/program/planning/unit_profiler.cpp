#include "launch/program/planning/unit_profiler.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "launch/program/planning/share_tuner.hpp"
#include "node/median.hpp"
#include "src/model/layer_probe.hpp"
#include "src/model/transformer_stage.hpp"

namespace yamata {
namespace {

constexpr int kRepetitions = 5, kMaxSteps = 24;
constexpr std::int64_t kGrain = 32;

/// Seconds of each unit, by kind of work.
using Times = std::map<WorkKind, std::vector<double>>;

/// A model's last layer, computed by some units.
class Bench {
 public:
  Bench(const ModelFile& model, std::unique_ptr<SplitUnit> unit, const UnitProfileNeeds& needs)
      : h_(model.h), unit_(std::move(unit)), most_(std::ranges::max(needs.contexts) + std::ranges::max(needs.widths)) {
    unit_->divide_attention_apart();
    unit_->divide_attention(needs.attention_cut);
    const ContextOptions options{most_, 1, needs.cache_types, needs.repack};
    stage_.emplace(model.file, model.h, LayerRange{h_.layers - 1, h_.layers}, options, *unit_);
    stage_->load(nullptr);
    wait();
    stage_->touch_cache();
  }

  SplitUnit& unit() { return *unit_; }

  /// The medians over some runs of `width` tokens after `context` others.
  Times run(int width, int context) {
    std::map<WorkKind, std::vector<std::vector<double>>> samples;  // [unit][run]
    for (int i = 0; i <= kRepetitions; ++i) {
      compute(width, context);
      if (i == 0) continue;  // not counted: the caches contain the data of other measurements
      for (int label = 1; label < static_cast<int>(unit_->shares().labels()); ++label) {
        auto& of = samples[unit_->shares().kind(label)];
        of.resize(static_cast<std::size_t>(unit_->units()));
        for (int unit = 0; unit < unit_->units(); ++unit) of[static_cast<std::size_t>(unit)].push_back(unit_->computed_s(label, unit));
      }
    }
    Times times;
    for (auto& [kind, units] : samples) {
      std::vector<double> medians;
      for (auto& runs : units) medians.push_back(median(runs));
      if (std::ranges::min(medians) > 0) times.emplace(kind, std::move(medians));
    }
    return times;
  }

 private:
  void compute(int width, int context) {
    std::vector<Placement> placements;
    std::vector<std::int32_t> rows;
    for (int i = 0; i < width; ++i) placements.push_back({context + i, -1, {0, 1}}), rows.push_back(i);
    const std::vector<float> activations(static_cast<std::size_t>(width * stage_->input_width()), 1.0f);
    stage_->suppose_text(context, {0, 1});
    stage_->start({{}, activations, placements, rows}, nullptr);
    wait();
  }

  void wait() {
    while (!unit_->wait_for(std::chrono::milliseconds(100))) {
    }
  }

  const Hyperparameters h_;
  std::unique_ptr<SplitUnit> unit_;
  const int most_;
  std::optional<TransformerStage> stage_;
};

/// The parts into which this work can be divided.
std::int64_t grains_of(const WorkKind& kind, AttentionCut cut) {
  if (kind.what == WorkKind::What::kProduct) return (kind.outputs + kGrain - 1) / kGrain;
  return cut == AttentionCut::kHeads || kind.context <= kAttentionSegment ? kind.outputs : kind.context / kAttentionSegment;
}

/// The time of each unit alone, for each kind of work; of attention, in the first of the contexts of a bucket.
Times measure_alone(const ModelFile& model, const std::vector<UnitSpec>& specs, cpu::Isa isa, const RankPlace& place,
                    const UnitProfileNeeds& needs, const std::function<void()>& interrupted) {
  Times isolated;
  for (std::size_t unit = 0; unit < specs.size(); ++unit) {
    Bench alone(model, make_split_unit({specs[unit]}, false, isa, place), needs);
    for (const int width : needs.widths) {
      for (const int context : needs.contexts) {
        for (const auto& [kind, seconds] : alone.run(width, context))
          if (isolated[kind].size() == unit) isolated[kind].push_back(seconds[0]);
        interrupted();
      }
    }
  }
  std::erase_if(isolated, [&](const auto& work) { return work.second.size() < specs.size(); });
  return isolated;
}

/// Adjusts the shares, beginning with those from the isolated times.
std::vector<UnitWork> tune(Bench& all, const Times& isolated, const UnitProfileNeeds& needs, const std::function<void()>& interrupted) {
  std::map<WorkKind, ShareTuner> tuners;
  for (const int width : needs.widths) {
    for (const int context : needs.contexts) {
      for (int step = 0, open = 1; open > 0 && step < kMaxSteps; ++step) {
        open = 0;
        for (const auto& [kind, seconds] : all.run(width, context)) {
          if (!isolated.contains(kind)) continue;
          const auto [found, is_new] = tuners.try_emplace(kind, isolated.at(kind), grains_of(kind, needs.attention_cut));
          ShareTuner& tuner = found->second;
          if (!is_new) tuner.measured(seconds);
          all.unit().shares().set(kind, tuner.shares());
          open += !tuner.done();
        }
        interrupted();
      }
    }
  }
  std::vector<UnitWork> works;
  for (const auto& [kind, tuner] : tuners) works.push_back({kind, isolated.at(kind), tuner.shares()});
  return works;
}

}  // namespace

UnitProfileNeeds default_needs(const Hyperparameters& h) {
  UnitProfileNeeds needs{.widths = {1, 4, 8, 16, 32, 64}, .contexts = {}, .cache_types = CacheType::kF16};
  for (int context = 16; context <= 2048 && context < h.context; context *= 2) needs.contexts.push_back(context - 1);
  return needs;
}

UnitProfile profile_units(const ModelFile& model, const std::vector<UnitSpec>& specs, cpu::Isa isa, const RankPlace& place,
                          const UnitProfileNeeds& needs, const std::function<void()>& interrupted) {
  const auto isolated = measure_alone(model, specs, isa, place, needs, interrupted);
  UnitProfile profile;
  {  // a device can only belong to one unit at a time
    Bench all(model, make_split_unit(specs, false, isa, place), needs);
    profile.works = tune(all, isolated, needs, interrupted);
  }
  const auto unit = make_split_unit(specs, false, isa, place);
  unit->divide_attention(needs.attention_cut);
  apply(profile, ShareRule::kTuned, *unit);
  const std::int64_t middle = model.h.layers / 2;
  LayerProbe probe(model, {middle, middle + 1}, *unit);
  probe.warm_up(std::chrono::minutes(1));
  profile.ns_per_byte = probe.measure();
  return profile;
}

}  // namespace yamata
