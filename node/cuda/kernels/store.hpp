#pragma once
// Applies RoPE to queries and keys, and stores keys and values in the cache: one warp per head of a row, of queries, keys or values.
#include "node/cpu/kernels/blocks.hpp"
#include "node/cuda/kernels/arithmetic.hpp"
#include "node/cuda/kernels/device_kernels.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kStoreThreads = 128, kStoreWarps = kStoreThreads / simt::kWarp;

/// Pairs of a lane are loaded two at a time, before either is stored.
YAMATA_DEVICE void rotate(const StoreArgs& a, float* head, const float* cos_sin) {
  constexpr int kAhead = 2;
  constexpr int kWarp = simt::kWarp;
  const int half = static_cast<int>(a.rotary_dim / 2), other = a.interleaved ? 1 : half, step = a.interleaved ? 2 : 1;
  for (int first = static_cast<int>(simt::lane()); first < half; first += kAhead * kWarp) {
    float x[kAhead], y[kAhead], c[kAhead], s[kAhead];
    for (int j = 0; j < kAhead; ++j) {
      const int i = first + j * kWarp < half ? first + j * kWarp : first;
      x[j] = head[step * i], y[j] = head[step * i + other], c[j] = cos_sin[2 * i], s[j] = cos_sin[2 * i + 1];
    }
    for (int j = 0; j < kAhead; ++j) {
      const int i = first + j * kWarp;
      if (!simt::within(i, half)) break;
      head[step * i] = x[j] * c[j] - y[j] * s[j];
      head[step * i + other] = x[j] * s[j] + y[j] * c[j];
    }
  }
}

/// RMSNorm of one head; without weights, they are 1.
YAMATA_DEVICE void norm_head(float* head, const float* weight, std::int64_t head_dim, float epsilon) {
  double sum = 0;
  for (std::int64_t block = 0; block < divide_up(head_dim, simt::kWarp); ++block) {
    const std::int64_t d = block * simt::kWarp + simt::lane();
    sum += static_cast<double>(block_square(simt::within(d, head_dim) ? head[d] : 0.0f));
  }
  const float factor = inverse_rms(sum, head_dim, epsilon);
  for (std::int64_t d = simt::lane(); d < head_dim; d += simt::kWarp) head[d] = head[d] * factor * (weight ? weight[d] : 1.0f);
  simt::sync_warp();
}

YAMATA_DEVICE void rotate_and_norm(const StoreArgs& a, float* head, const float* weight, const float* angles) {
  const bool norms = weight || a.unit_norm;
  if (norms && !a.norm_last) norm_head(head, weight, a.head_dim, a.epsilon);
  rotate(a, head, angles);
  if (!norms || !a.norm_last) return;
  simt::sync_warp();
  norm_head(head, weight, a.head_dim, a.epsilon);
}

/// Stores a warp's 32 floats in a cell of a plane, from element d - lane on.
YAMATA_DEVICE void store_block(float value, std::int64_t d, std::int64_t head_dim, TensorType type, void* plane, std::int64_t cell) {
  if (type == TensorType::Q8_0) {
    const float scale = largest_of_warp(magnitude(value)) / 127.0f;
    cpu::BlockQ8_0& block = static_cast<cpu::BlockQ8_0*>(plane)[(cell * head_dim + d) / 32];
    block.qs[d % 32] = static_cast<std::int8_t>(simt::to_int(round_whole(value * (scale < 1.17549435e-38f ? 0.0f : 1.0f / scale))));
    if (simt::lane() == 0) block.d = simt::float_to_half(scale);
  } else if (simt::within(d, head_dim)) {
    if (type == TensorType::F16)
      static_cast<std::uint16_t*>(plane)[cell * head_dim + d] = simt::float_to_half(value);
    else
      static_cast<float*>(plane)[cell * head_dim + d] = value;
  }
}

/// Stores head_dim floats in a cell of a plane, four blocks at a time: they are loaded before any is stored.
YAMATA_DEVICE void store_cell(const float* x, std::int64_t head_dim, TensorType type, void* plane, std::int64_t cell) {
  constexpr int kAhead = 4;
  for (std::int64_t first = 0; first < head_dim; first += kAhead * simt::kWarp) {
    float values[kAhead];
    for (int j = 0; j < kAhead; ++j) {
      const std::int64_t d = first + j * simt::kWarp + simt::lane();
      values[j] = simt::within(d, head_dim) ? x[d] : 0.0f;
    }
    for (int j = 0; j < kAhead && first + j * simt::kWarp < head_dim; ++j)
      store_block(values[j], first + j * simt::kWarp + simt::lane(), head_dim, type, plane, cell);
  }
}

YAMATA_KERNEL void YAMATA_BOUNDS(kStoreThreads) rotate_and_store(const StoreArgs a) {
  const std::int64_t row = simt::block_y(), i = static_cast<std::int64_t>(simt::block_x()) * kStoreWarps + simt::warp();
  const float* angles = a.cos_sin + row * a.rotary_dim;
  const std::int64_t queries = a.q_end - a.q_begin, keys = a.kv_end - a.kv_begin;
  if (i < queries) {
    float* q = a.q + (row * a.q_heads + a.q_begin + i) * a.head_dim;
    if (a.q_rotary) {
      const float* from = a.q_rotary + (row * a.q_heads + a.q_begin + i) * a.q_rotary_stride;
      for (std::int64_t d = simt::lane(); d < a.rotary_dim; d += simt::kWarp) q[d] = from[d];
      simt::sync_warp();
    }
    rotate_and_norm(a, q, a.q_norm, angles);
    if (!a.q_scale) return;
    simt::sync_warp();
    const float scale = a.q_scale[row];
    for (std::int64_t d = simt::lane(); d < a.head_dim; d += simt::kWarp) q[d] *= scale;
    return;
  }
  if (!simt::within(i, queries + (a.v ? 2 : 1) * keys)) return;
  const bool is_key = i < queries + keys;
  const std::int64_t kv = a.kv_begin + i - queries - (is_key ? 0 : keys), at = (row * a.kv_heads + kv) * a.head_dim, cell = a.cells[row];
  if (!is_key) return store_cell(a.v + at, a.head_dim, a.v_type, a.cache_v[kv], cell);
  void* plane = a.cache_k[kv];
  rotate_and_norm(a, a.k + at, a.k_norm, angles);
  simt::sync_warp();
  store_cell(a.k + at, a.head_dim, a.k_type, plane, cell);
}

void store(const StoreArgs& a, Stream stream) {
  const std::int64_t keys = a.kv_end - a.kv_begin, heads = a.q_end - a.q_begin + (a.v ? 2 : 1) * keys;
  const auto blocks = static_cast<unsigned>(divide_up(heads, kStoreWarps));
  if (a.rows > 0 && blocks > 0) simt::launch(&rotate_and_store, {blocks, static_cast<unsigned>(a.rows)}, kStoreThreads, 0, stream, a);
}

}  // namespace
}  // namespace yamata::cuda
