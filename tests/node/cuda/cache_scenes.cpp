#include <algorithm>
#include <numeric>

#include "tests/node/cuda/scenes.hpp"

namespace yamata::cuda {
namespace {

struct CacheShape {
  std::int64_t kv_heads, group, before, q_heads, head_dim, cells;
  TensorType k_type, v_type;
};

/// A cache of the device, and the same of the CPU.
struct Cache {
  Cache(const TestDevice& device, const CacheShape& s, unsigned seed) {
    cpu::Random random(seed);
    for (std::int64_t head = 0; head < s.kv_heads; ++head) {
      for (const bool keys : {true, false}) {
        const TensorType type = keys ? s.k_type : s.v_type;
        std::vector<std::byte> bytes = cpu::random_weights(random, type, s.cells, s.head_dim);
        (keys ? k : v).push_back(device.array(bytes));
        (keys ? cpu_k : cpu_v).push_back(std::move(bytes));
      }
    }
    std::vector<void*> device_planes_k, device_planes_v;
    for (std::size_t head = 0; head < k.size(); ++head) {
      device_planes_k.push_back(k[head].data()), device_planes_v.push_back(v[head].data());
      cpu_planes_k.push_back(cpu_k[head].data()), cpu_planes_v.push_back(cpu_v[head].data());
    }
    planes_k = device.array(device_planes_k), planes_v = device.array(device_planes_v);
  }
  bool equal() const {
    for (std::size_t head = 0; head < k.size(); ++head) {
      if (k[head].values() != cpu_k[head] || v[head].values() != cpu_v[head]) return false;
    }
    return true;
  }
  std::vector<Array<std::byte>> k, v;
  std::vector<std::vector<std::byte>> cpu_k, cpu_v;
  Array<void*> planes_k, planes_v;
  std::vector<void*> cpu_planes_k, cpu_planes_v;
};

/// How heads are normalized: not, before or after RoPE, or after it without weights.
enum class HeadNorm { kNone, kFirst, kLast, kUnit };

/// `latent`: values are parts of keys, and what of queries rotates comes from elsewhere. After norms, queries are scaled.
bool store_holds(const TestDevice& device, const CacheShape& s, bool interleaved, std::int64_t rotary_dim, HeadNorm norms = HeadNorm::kNone,
                 bool latent = false) {
  const bool normed = norms == HeadNorm::kFirst || norms == HeadNorm::kLast, last = norms == HeadNorm::kLast || norms == HeadNorm::kUnit;
  Cache cache(device, s, 5);
  cpu::Random random(6);
  const std::vector<std::int32_t> cells{static_cast<std::int32_t>(s.cells - 1), 0, 4};
  const std::int64_t rows = std::ssize(cells);
  const auto floats = [&](std::int64_t n) { return cpu::random_floats(random, static_cast<std::size_t>(rows * n)); };
  std::vector<float> q = floats(s.q_heads * s.head_dim), k = floats(s.kv_heads * s.head_dim), v = k, angles = floats(rotary_dim);
  const Array<float> device_q = device.array(q), device_k = device.array(k), device_v = device.array(v),
                     device_angles = device.array(angles);
  const std::vector<float> norm = cpu::random_floats(random, static_cast<std::size_t>(2 * s.head_dim));
  const Array<float> q_norm = device.array(std::vector(norm.begin(), norm.begin() + s.head_dim)),
                     k_norm = device.array(std::vector(norm.begin() + s.head_dim, norm.end()));
  const std::vector<float> rotary = floats(s.q_heads * (rotary_dim + 3));
  const Array<float> device_rotary = device.array(rotary);
  const std::vector<float> scales = floats(1);
  const Array<float> device_scales = device.array(scales);
  const Array<std::int32_t> device_cells = device.array(cells);
  StoreArgs a{};
  a.q = device_q.data(), a.k = device_k.data(), a.v = latent ? nullptr : device_v.data();
  a.rows = rows, a.q_heads = s.q_heads, a.kv_heads = s.kv_heads, a.head_dim = s.head_dim, a.rotary_dim = rotary_dim;
  a.q_end = s.q_heads, a.kv_end = s.kv_heads;
  a.interleaved = interleaved, a.cos_sin = device_angles.data(), a.cells = device_cells.data();
  a.cache_k = cache.planes_k.data(), a.cache_v = cache.planes_v.data(), a.k_type = s.k_type, a.v_type = s.v_type;
  if (normed) a.q_norm = q_norm.data(), a.k_norm = k_norm.data();
  a.epsilon = 1e-6f, a.norm_last = last, a.unit_norm = norms == HeadNorm::kUnit;
  if (norms != HeadNorm::kNone) a.q_scale = device_scales.data();
  if (latent) a.q_rotary = device_rotary.data(), a.q_rotary_stride = rotary_dim + 3;
  device.kernels().store(a, device.stream());
  device.finish();
  StoreOp op{q.data(),
             k.data(),
             latent ? nullptr : v.data(),
             rows,
             s.q_heads,
             s.kv_heads,
             s.head_dim,
             rotary_dim,
             interleaved,
             angles.data(),
             cells.data(),
             cache.cpu_planes_k.data(),
             cache.cpu_planes_v.data(),
             s.k_type,
             s.v_type};
  if (normed) op.q_norm = norm.data(), op.k_norm = norm.data() + s.head_dim;
  op.epsilon = 1e-6f, op.norm_last = last, op.unit_norm = norms == HeadNorm::kUnit;
  if (norms != HeadNorm::kNone) op.q_scale = scales.data();
  if (latent) op.q_rotary = rotary.data(), op.q_rotary_stride = rotary_dim + 3;
  compute_on_core(op);
  return cache.equal() && cpu::bits(device_q.values()) == cpu::bits(q) && cpu::bits(device_k.values()) == cpu::bits(k);
}

/// Rows that see 700, no, 513, 128, 256 and 129 cells, in an order of their own.
bool attention_holds(const TestDevice& device, const CacheShape& s, float softcap = 0, bool sunk = false) {
  Cache cache(device, s, 7);
  cpu::Random random(8);
  std::vector<std::vector<std::int32_t>> cells;
  std::vector<std::span<const std::int32_t>> visible;
  std::vector<std::int64_t> begins{0};
  std::vector<std::int32_t> all;
  for (const std::size_t count : {700u, 0u, 513u, 128u, 256u, 129u}) {
    auto& row = cells.emplace_back(static_cast<std::size_t>(s.cells));
    std::iota(row.begin(), row.end(), 0);
    std::ranges::shuffle(row, random);
    row.resize(std::min(count, row.size()));
    all.insert(all.end(), row.begin(), row.end());
    begins.push_back(std::ssize(all));
  }
  for (const auto& row : cells) visible.emplace_back(row);
  const std::int64_t rows = std::ssize(cells), segments = (s.cells + 255) / 256, states = segments * rows * s.q_heads;
  const std::vector<float> q = cpu::random_floats(random, static_cast<std::size_t>(rows * s.q_heads * s.head_dim));
  std::vector<float> expected(q.size());
  const Array<float> device_q = device.array(q), out = device.array(q.size(), 4.0f),
                     partial = device.array(static_cast<std::size_t>(states * s.head_dim), 4.0f),
                     peak = device.array(static_cast<std::size_t>(states), 4.0f),
                     total = device.array(static_cast<std::size_t>(states), 4.0f);
  const std::vector<float> sinks = cpu::random_floats(random, static_cast<std::size_t>(s.q_heads));
  const Array<float> device_sinks = device.array(sinks);
  const Array<std::int64_t> device_begins = device.array(begins);
  const Array<std::int32_t> device_cells = device.array(all);
  cuda::AttentionArgs args{};
  args.q = device_q.data(), args.rows = rows, args.q_heads = s.q_heads, args.kv_heads = s.kv_heads, args.head_dim = s.head_dim;
  args.group = s.group, args.before = s.before, args.head_end = s.q_heads, args.scale = 0.2f, args.softcap = softcap;
  args.begins = device_begins.data(), args.cells = device_cells.data();
  args.cache_k = cache.planes_k.data(), args.cache_v = cache.planes_v.data(), args.k_type = s.k_type, args.v_type = s.v_type;
  for (std::int64_t segment = segments - 1; segment >= 0; --segment) {  // the last first, each by itself
    const std::int64_t at = segment * rows * s.q_heads;
    args.first = segment, args.last = segment + 1;
    args.out = partial.data() + at * s.head_dim, args.peak = peak.data() + at, args.total = total.data() + at;
    device.kernels().attend(args, device.stream());
  }
  device.kernels().merge({rows, s.q_heads, s.head_dim, 0, s.q_heads, device_begins.data(), partial.data(), peak.data(), total.data(),
                          out.data(), sunk ? device_sinks.data() : nullptr},
                         device.stream());
  device.finish();
  compute_on_core(AttentionOp{q.data(), rows, s.q_heads, s.kv_heads, s.head_dim, 0.2f, visible.data(), cache.cpu_planes_k.data(),
                              cache.cpu_planes_v.data(), s.k_type, s.v_type, expected.data(), s.group, s.before, softcap,
                              sunk ? sinks.data() : nullptr});
  return cpu::bits(out.values()) == cpu::bits(expected);
}

/// Rows that see 700, no, 513, 128, 200 and 201 cells, and pick at most 200, or as many in blocks; with `equal`, many cells have equal
/// scores.
bool picks_hold(const TestDevice& device, TensorType type, std::int64_t heads, bool equal, std::int64_t block) {
  constexpr std::int64_t kDim = 64, kCells = 700, kMost = 200;
  const Cache cache(device, {1, 1, 0, 1, kDim, kCells, type, type}, 9);
  cpu::Random random(10);
  std::vector<std::vector<std::int32_t>> cells, last_cells(6);
  std::vector<std::span<const std::int32_t>> visible, ends, picked;
  std::vector<std::int64_t> begins{0}, end_begins{0}, to_begins{0};
  std::vector<std::int32_t> all, all_ends;
  for (const std::size_t count : {700u, 0u, 513u, 128u, 200u, 201u}) {
    auto& row = cells.emplace_back(static_cast<std::size_t>(kCells));
    std::iota(row.begin(), row.end(), 0);
    std::ranges::shuffle(row, random);
    row.resize(count);
    for (std::size_t i = 0; equal && i < count; ++i) row[i] %= 9;
    all.insert(all.end(), row.begin(), row.end());
    begins.push_back(std::ssize(all));
    auto& last = last_cells[cells.size() - 1];
    for (std::int64_t i = block; i <= std::ssize(row); i += block) last.push_back(row[static_cast<std::size_t>(i - 1)]);
    all_ends.insert(all_ends.end(), last.begin(), last.end());
    end_begins.push_back(std::ssize(all_ends));
    to_begins.push_back(to_begins.back() + std::min(std::ssize(row) / block, kMost / block) * block + std::ssize(row) % block);
  }
  std::vector<std::int32_t> expected(static_cast<std::size_t>(to_begins.back()));
  for (std::size_t row = 0; row < cells.size(); ++row) {
    visible.emplace_back(cells[row]), ends.emplace_back(last_cells[row]);
    picked.emplace_back(expected.data() + to_begins[row], static_cast<std::size_t>(to_begins[row + 1] - to_begins[row]));
  }
  const std::int64_t rows = std::ssize(cells);
  const std::vector<float> q = cpu::random_floats(random, static_cast<std::size_t>(rows * heads * kDim)),
                           weights = cpu::random_floats(random, static_cast<std::size_t>(rows * heads));
  const Array<float> device_q = device.array(q), device_weights = device.array(weights),
                     scores = device.array(static_cast<std::size_t>(rows * kCells), 4.0f);
  const Array<std::int64_t> device_begins = device.array(begins), device_ends = device.array(end_begins),
                            device_to = device.array(to_begins);
  const Array<std::int32_t> device_cells = device.array(all), device_last = device.array(all_ends),
                            found = device.array(expected.size(), -1);
  const std::int64_t weight_row = block == 1 ? heads : 0;
  device.kernels().index_scores({device_q.data(), device_weights.data(), weight_row, rows, heads, kDim, device_ends.data(),
                                 device_last.data(), cache.k[0].data(), type, scores.data(), kCells, kCells},
                                device.stream());
  device.kernels().pick(
      {scores.data(), kCells, rows, device_ends.data(), block, device_begins.data(), device_cells.data(), device_to.data(), found.data()},
      device.stream());
  device.finish();
  compute_on_core(PickOp{q.data(), weights.data(), rows, heads, kDim, ends.data(), picked.data(), cache.cpu_planes_k.data(), type,
                         block != 1, visible.data(), block});
  std::vector<float> right(scores.count, 4.0f);
  for (std::int64_t row = 0; row < rows; ++row) {
    cpu::kernels(cpu::Isa::kScalar)
        .index_scores({q.data() + row * heads * kDim, weights.data() + row * weight_row, ends[static_cast<std::size_t>(row)].data(),
                       std::ssize(ends[static_cast<std::size_t>(row)]), cache.cpu_planes_k[0], type, heads, kDim,
                       right.data() + row * kCells});
  }
  return cpu::bits(scores.values()) == cpu::bits(right) && found.values() == expected;
}

/// Means of four keys, of three rows.
bool means_hold(const TestDevice& device, TensorType type) {
  constexpr std::int64_t kDim = 96, kCells = 40;
  const Cache cache(device, {1, 1, 0, 1, kDim, kCells, type, type}, 11);
  const std::vector<std::int32_t> cells{3, 39, 0, 7, 5, 5, 6, 8, 12, 11, 10, 9};
  std::vector<std::span<const std::int32_t>> rows;
  for (std::size_t row = 0; row < 3; ++row) rows.push_back(std::span(cells).subspan(4 * row, 4));
  const Array<std::int64_t> begins = device.array(std::vector<std::int64_t>{0, 4, 8, 12});
  const Array<std::int32_t> device_cells = device.array(cells);
  const Array<float> found = device.array(3 * static_cast<std::size_t>(kDim), -1.0f);
  device.kernels().pool({cache.k[0].data(), type, 3, kDim, begins.data(), device_cells.data(), found.data()}, device.stream());
  device.finish();
  std::vector<float> expected(found.count);
  compute_on_core(PoolOp{rows.data(), 3, kDim, cache.cpu_planes_k.data(), type, expected.data()});
  return cpu::bits(found.values()) == cpu::bits(expected);
}

}  // namespace

std::vector<Scene> cache_scenes() {
  std::vector<Scene> scenes;
  constexpr TensorType kTypes[] = {TensorType::F32, TensorType::F16, TensorType::Q8_0};
  for (const TensorType k : kTypes) {
    for (const TensorType v : kTypes) {
      const std::string name = std::string(traits(k).name) + " and " + std::string(traits(v).name);
      // 7 query heads of groups of 3, one and two of which are elsewhere at the beginning.
      const CacheShape shape{3, 3, 1, 7, 64, 700, k, v};
      scenes.push_back({"attention, " + name, [=](const TestDevice& device) { return attention_holds(device, shape); }});
      // So many thread blocks that each has several query heads.
      const CacheShape many{11, 6, 2, 64, 32, 300, k, v};
      scenes.push_back({"attention of many heads, " + name, [=](const TestDevice& device) { return attention_holds(device, many); }});
      const CacheShape stored{3, 2, 0, 6, 96, 6, k, v};
      scenes.push_back({"store, " + name,
                        [=](const TestDevice& device) { return store_holds(device, stored, k == v, k == TensorType::F16 ? 96 : 40); }});
    }
  }
  for (const TensorType type : kTypes) {
    const std::string name(traits(type).name);
    for (const auto& [equal, block] : {std::pair{false, 1}, {true, 1}, {false, 4}, {true, 7}})
      scenes.push_back({"picked cells, " + name,
                        [=](const TestDevice& device) { return picks_hold(device, type, type == TensorType::F16 ? 7 : 8, equal, block); }});
    scenes.push_back({"means of keys, " + name, [=](const TestDevice& device) { return means_hold(device, type); }});
  }
  const CacheShape narrow{2, 6, 0, 12, 16, 300, TensorType::F16, TensorType::F32},
      wide{1, 5, 0, 5, 208, 700, TensorType::F16, TensorType::F16};
  scenes.push_back({"attention, heads of 16", [=](const TestDevice& device) { return attention_holds(device, narrow); }});
  scenes.push_back({"attention, heads of 208", [=](const TestDevice& device) { return attention_holds(device, wide); }});
  const CacheShape small{2, 2, 0, 4, 48, 6, TensorType::F16, TensorType::F32};
  scenes.push_back({"store, heads of 48", [=](const TestDevice& device) { return store_holds(device, small, false, 48); }});
  scenes.push_back(
      {"store, latent", [=](const TestDevice& device) { return store_holds(device, small, true, 38, HeadNorm::kNone, true); }});
  scenes.push_back(
      {"store, normed heads", [=](const TestDevice& device) { return store_holds(device, small, false, 48, HeadNorm::kFirst); }});
  for (const HeadNorm last : {HeadNorm::kLast, HeadNorm::kUnit})
    scenes.push_back({"store, heads normed last", [=](const TestDevice& device) { return store_holds(device, small, true, 48, last); }});
  scenes.push_back({"attention, soft-capped", [=](const TestDevice& device) { return attention_holds(device, narrow, 2.5f); }});
  scenes.push_back({"attention, with sinks", [=](const TestDevice& device) { return attention_holds(device, wide, 0, true); }});
  return scenes;
}

}  // namespace yamata::cuda
