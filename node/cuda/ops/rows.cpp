// Operations on rows of tokens: embedding, copies, norms, sums.
#include <algorithm>

#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/row_ops.hpp"
#include "node/cuda/ops/ops.hpp"

namespace yamata::cuda {

/// The host looks up the rows: they are few, and the table would fill the device's memory although most of it is never read.
bool run(OpContext& c, const EmbedOp& op) {
  const Matrix& table = *op.table;
  const auto rows = static_cast<std::int64_t>(op.tokens.size());
  const std::size_t floats = op.tokens.size() * static_cast<std::size_t>(table.cols);
  auto* looked_up = reinterpret_cast<float*>(c.memory.arguments(floats * sizeof(float)));
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto token = static_cast<std::size_t>(op.tokens[static_cast<std::size_t>(row)]);
    float* out = looked_up + row * table.cols;
    cpu::dequantize(table.type, table.data + token * table.row_bytes, table.cols, out);
    for (std::int64_t i = 0; op.scale != 1 && i < table.cols; ++i) out[i] *= op.scale;
  }
  c.kernels().copy({looked_up, nullptr, table.cols, rows, table.cols, c.memory.at(op.out, floats), table.cols}, c.stream());
  c.check("embedding");
  return true;
}

bool run(OpContext& c, const GatherOp& op) {
  std::int32_t highest = -1;
  for (const std::int32_t row : op.rows) highest = std::max(highest, row);
  const float* x = c.memory.at(op.x, static_cast<std::size_t>((highest + 1) * op.dim));
  float* out = c.memory.at(op.out, op.rows.size() * static_cast<std::size_t>(op.dim));
  c.kernels().gather({x, op.dim, std::ssize(op.rows), c.memory.put(op.rows), out, op.dim}, c.stream());
  c.check("gathering rows");
  return true;
}

bool run(OpContext& c, const NormOp& op) {
  NormArgs a{};
  a.rows = op.rows, a.cols = op.cols;
  const std::int64_t own = op.share.end(op.cols) - op.share.begin();
  const float* x = c.memory.at(op.x, op.rows > 0 ? static_cast<std::size_t>((op.rows - 1) * op.x_stride + own) : 0);
  a.x = x, a.x_stride = op.x_stride;
  if (op.share.group) {
    const Slices all = slices(c, float_slices(op.share, op.rows));
    if (!c.declined) put_columns(c, all, {x, nullptr, op.x_stride, op.rows, own, nullptr, 0});
    if (!exchange(c, all)) return false;
    auto* whole = reinterpret_cast<float*>(c.memory.scratch(Scratch::kWhole, static_cast<std::size_t>(op.rows * op.cols) * sizeof(float)));
    take_columns(c, all, {0, op.rows}, whole, op.cols);
    a.x = whole, a.x_stride = op.cols;
  }
  a.weight = c.memory.at(op.weight, static_cast<std::size_t>(op.weight_rows * op.cols)), a.weight_rows = op.weight_rows;
  if (op.bias && op.centered) a.bias = c.memory.at(op.bias, static_cast<std::size_t>(op.cols));
  a.centered = op.centered, a.epsilon = op.epsilon;
  a.out_begin = op.out_begin, a.out_cols = op.out_cols, a.out_stride = op.out_stride;
  a.out = c.memory.at(op.out, op.rows > 0 ? static_cast<std::size_t>((op.rows - 1) * op.out_stride + op.out_cols) : 0);
  c.kernels().norm(a, c.stream());
  c.check("a norm");
  return true;
}

bool run(OpContext& c, const ResizeOp& op) {
  const float* from = c.memory.at(op.from, static_cast<std::size_t>(op.rows * op.from_cols));
  c.kernels().resize({from, c.memory.at(op.to, static_cast<std::size_t>(op.rows * op.to_cols)), op.rows, op.from_cols, op.to_cols},
                     c.stream());
  c.check("resizing rows");
  return true;
}

bool run(OpContext& c, const AddOp& op) {
  const bool experts = op.experts.any();
  const auto floats = [&](std::int64_t rows, std::int64_t stride) {
    return rows > 0 ? static_cast<std::size_t>((rows - 1) * stride + op.cols) : 0;
  };
  const auto pairs = static_cast<std::size_t>(op.rows * op.experts.used);
  AddArgs a{};
  a.to = c.memory.at(op.to, floats(op.rows, op.to_stride)), a.to_stride = op.to_stride;
  a.from = c.memory.at(op.from, floats(experts ? op.rows * op.experts.used : op.rows / op.each, op.from_stride));
  a.rows = op.rows, a.cols = op.cols, a.from_stride = op.from_stride, a.scale = op.scale, a.used = op.experts.used, a.each = op.each;
  if (op.gate && !experts) a.gate = c.memory.at(op.gate, static_cast<std::size_t>(op.rows));
  if (experts && op.weighted) a.weights = c.memory.at(op.experts.weights, pairs);
  if (experts) a.pairs = c.memory.at(op.experts.pairs, pairs);
  c.kernels().add(a, c.stream());
  c.check("adding to the residual stream");
  return true;
}

bool run(OpContext& c, const ScaleOp& op) {
  ScaleArgs a{c.memory.at(op.x, static_cast<std::size_t>(op.n)), op.n, op.scale, op.cap};
  if (op.experts.any()) {
    const auto pairs = static_cast<std::size_t>(op.n / op.cols);
    a.weights = c.memory.at(op.experts.weights, pairs), a.pairs = c.memory.at(op.experts.pairs, pairs);
    a.tokens = c.memory.at(op.experts.tokens, pairs), a.used = op.experts.used, a.cols = op.cols;
  }
  c.kernels().scale(a, c.stream());
  c.check("scaling");
  return true;
}

bool run(OpContext& c, const HighestOp& op) {
  const float* x = c.memory.at(op.x, static_cast<std::size_t>(op.rows * op.cols));
  Highest* out = c.memory.at(op.out, static_cast<std::size_t>(op.rows));
  c.kernels().highest({x, op.rows, op.cols, op.columns.begin, op.columns.end_of(op.cols), out}, c.stream());
  c.check("finding the highest logits");
  return true;
}

/// The host chooses the experts, because it must know them to launch their products.
bool run(OpContext& c, const RouterOp& op) {
  c.catch_up();
  if (c.launcher.was_stopped()) return false;
  cpu::choose_experts(cpu::kernels(cpu::choose_isa()), op, {0, op.rows});
  cpu::number_pairs(op);
  return true;
}

}  // namespace yamata::cuda
