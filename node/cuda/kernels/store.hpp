#pragma once
// Applies RoPE to queries and keys, and stores keys and values in the cache: one warp per head of a row.
#include "node/cpu/kernels/blocks.hpp"
#include "node/cuda/device_kernels.hpp"
#include "node/cuda/kernels/arithmetic.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kStoreThreads = 128, kStoreWarps = kStoreThreads / simt::kWarp;

YAMATA_DEVICE void rotate(const StoreArgs& a, float* head, const float* cos_sin) {
  const std::int64_t half = a.rotary_dim / 2;
  for (std::int64_t i = simt::lane(); i < half; i += simt::kWarp) {
    float& first = head[a.interleaved ? 2 * i : i];
    float& second = head[a.interleaved ? 2 * i + 1 : i + half];
    const float c = cos_sin[2 * i], s = cos_sin[2 * i + 1], x = first * c - second * s;
    second = first * s + second * c;
    first = x;
  }
}

/// RMSNorm of one head.
YAMATA_DEVICE void norm_head(float* head, const float* weight, std::int64_t head_dim, float epsilon) {
  double sum = 0;
  for (std::int64_t block = 0; block < divide_up(head_dim, simt::kWarp); ++block) {
    const std::int64_t d = block * simt::kWarp + simt::lane();
    sum += static_cast<double>(block_square(simt::within(d, head_dim) ? head[d] : 0.0f));
  }
  const float factor = inverse_rms(sum, head_dim, epsilon);
  for (std::int64_t d = simt::lane(); d < head_dim; d += simt::kWarp) head[d] = head[d] * factor * weight[d];
  simt::sync_warp();
}

/// Stores head_dim floats in a cell of a plane.
YAMATA_DEVICE void store_cell(const float* x, std::int64_t head_dim, TensorType type, void* plane, std::int64_t cell) {
  for (std::int64_t d = simt::lane(); d < divide_up(head_dim, simt::kWarp) * simt::kWarp; d += simt::kWarp) {
    const float value = simt::within(d, head_dim) ? x[d] : 0.0f;
    if (type == TensorType::Q8_0) {
      const float scale = largest_of_warp(magnitude(value)) / 127.0f;
      cpu::BlockQ8_0& block = static_cast<cpu::BlockQ8_0*>(plane)[(cell * head_dim + d) / 32];
      block.qs[d % 32] = static_cast<std::int8_t>(round_whole(value * (scale < 1.17549435e-38f ? 0.0f : 1.0f / scale)));
      if (simt::lane() == 0) block.d = simt::float_to_half(scale);
    } else if (simt::within(d, head_dim)) {
      if (type == TensorType::F16)
        static_cast<std::uint16_t*>(plane)[cell * head_dim + d] = simt::float_to_half(value);
      else
        static_cast<float*>(plane)[cell * head_dim + d] = value;
    }
  }
}

YAMATA_KERNEL void YAMATA_BOUNDS(kStoreThreads) rotate_and_store(const StoreArgs a) {
  const std::int64_t row = simt::block_y(), i = static_cast<std::int64_t>(simt::block_x()) * kStoreWarps + simt::warp();
  const float* angles = a.cos_sin + row * a.rotary_dim;
  const std::int64_t queries = a.q_end - a.q_begin, kv = a.kv_begin + i - queries;
  if (i < queries) {
    float* q = a.q + (row * a.q_heads + a.q_begin + i) * a.head_dim;
    if (a.q_rotary) {
      const float* from = a.q_rotary + (row * a.q_heads + a.q_begin + i) * a.q_rotary_stride;
      for (std::int64_t d = simt::lane(); d < a.rotary_dim; d += simt::kWarp) q[d] = from[d];
      simt::sync_warp();
    }
    if (a.q_norm) norm_head(q, a.q_norm, a.head_dim, a.epsilon);
    return rotate(a, q, angles);
  }
  if (!simt::within(kv, a.kv_end)) return;
  const std::int64_t at = (row * a.kv_heads + kv) * a.head_dim;
  if (a.k_norm) norm_head(a.k + at, a.k_norm, a.head_dim, a.epsilon);
  rotate(a, a.k + at, angles);
  simt::sync_warp();
  store_cell(a.k + at, a.head_dim, a.k_type, a.cache_k[kv], a.cells[row]);
  if (a.v) store_cell(a.v + at, a.head_dim, a.v_type, a.cache_v[kv], a.cells[row]);
}

void store(const StoreArgs& a, Stream stream) {
  const auto blocks = static_cast<unsigned>(divide_up(a.q_end - a.q_begin + a.kv_end - a.kv_begin, kStoreWarps));
  if (a.rows > 0 && blocks > 0) simt::launch(&rotate_and_store, {blocks, static_cast<unsigned>(a.rows)}, kStoreThreads, 0, stream, a);
}

}  // namespace
}  // namespace yamata::cuda
