// Norms of keys and values before they are cached, and those that pass to another stage (Gemma 4).
#include <utility>

#include "src/model/layer_ops.hpp"

namespace yamata {

using enum TensorRole;

/// RMSNorm of every head's keys, and without weights of its values.
void LayerOps::norm_keys_and_values(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache, std::int64_t rows) {
  const std::int64_t size = h_.key_dim();
  float* k = buffers_.k.data();
  const auto norm = [&](const float* x, const float* weight, float* out) {
    return NormOp{.x = x,
                  .rows = rows * shard_.kv_heads(),
                  .cols = size,
                  .x_stride = size,
                  .weight = weight,
                  .epsilon = h_.epsilon,
                  .out = out,
                  .out_cols = size,
                  .out_stride = size};
  };
  const NormOp values = norm(spec.values_from_keys ? k : buffers_.v.data(), buffers_.ones.data(), buffers_.v.data());
  const NormOp keys = norm(k, w.vector(kKNorm), k);
  if (cache.passed_k) pass_keys_and_values(keys, values, cache, rows);
  ops_.push_back(values);
  ops_.push_back(keys);
}

/// The same norms for another stage, head by head, since rows have the heads of all members there.
void LayerOps::pass_keys_and_values(const NormOp& keys, const NormOp& values, const LayerCache& cache, std::int64_t rows) {
  const std::int64_t all = h_.kv_heads * h_.key_dim();
  const Interval own = shard_.rows(Extent::kKeys);
  for (const auto& [op, to] : {std::pair(keys, cache.passed_k), std::pair(values, cache.passed_v)}) {
    for (std::int64_t head = 0; head < shard_.kv_heads(); ++head) {
      NormOp one = op;
      one.rows = rows;
      one.x += head * op.cols, one.x_stride = own.count();
      one.out = to + own.begin + head * op.cols, one.out_stride = all;
      ops_.push_back(one);
    }
    if (!shard_.whole()) ops_.push_back(AllGatherOp{to, rows, all, shared(shard_.keys())});
  }
}

void LayerOps::add_cells(const LayerSpec& spec, const LayerCache& cache, float* k, const float* v, std::int64_t rows) {
  StoreOp op = store(spec, cache, rows);
  op.k = k, op.v = v, op.q_heads = 0, op.q_scale = nullptr;
  ops_.push_back(op);
}

}  // namespace yamata
