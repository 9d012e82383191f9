// Rows of tokens: looked up and copied.
#include <algorithm>

#include "node/cpu/kernels/kernels.hpp"
#include "node/cuda/ops/ops.hpp"
#include "node/error.hpp"

namespace yamata::cuda {

void refuse(const OpContext& c, bool needed, const char* what) {
  if (needed)
    throw ModelError("this model needs " + std::string(what) + ", which device " + c.device.id() + " has no kernel for; run it on the CPU");
}

/// The host looks the rows up: they are few, and the table, of which most is never read, takes no memory of the device.
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
  c.kernels().copy({looked_up, nullptr, table.cols, rows, table.cols, c.memory.at(op.out, floats), table.cols}, c.device.stream());
  c.device.check("embedding");
  return true;
}

bool run(OpContext& c, const GatherOp& op) {
  std::int32_t highest = -1;
  for (const std::int32_t row : op.rows) highest = std::max(highest, row);
  const float* x = c.memory.at(op.x, static_cast<std::size_t>((highest + 1) * op.dim));
  float* out = c.memory.at(op.out, op.rows.size() * static_cast<std::size_t>(op.dim));
  c.kernels().gather({x, op.dim, std::ssize(op.rows), c.memory.put(op.rows), out}, c.device.stream());
  c.device.check("gathering rows");
  return true;
}

}  // namespace yamata::cuda
