// Products, and what they are products with.
#include <algorithm>

#include "node/cpu/kernels/repack.hpp"
#include "node/cuda/ops/ops.hpp"
#include "node/error.hpp"

namespace yamata::cuda {
namespace {

bool any_part(const LinearOp& op, bool quantized) {
  return std::ranges::any_of(op.parts, [&](const auto& part) { return part.weight && cpu::has_panels(part.weight->type) == quantized; });
}
bool needs_quantized(const LinearOp& op) { return any_part(op, true); }
bool needs_floats(const LinearOp& op) { return any_part(op, false) || !any_part(op, true); }

/// Room for rows of so many columns.
DeviceRows quantized_rows(OpContext& c, std::int64_t rows, std::int64_t cols) {
  const std::int64_t blocks = (cols + 31) / 32, all = rows * blocks;
  std::byte* memory = c.memory.scratch(Scratch::kQuantized, static_cast<std::size_t>(all * DeviceRows::kBlockBytes));
  auto* scales = reinterpret_cast<float*>(memory + 32 * all);
  return {reinterpret_cast<std::int8_t*>(memory), scales, reinterpret_cast<std::int16_t*>(scales + all), blocks, rows};
}

std::size_t floats(std::int64_t rows, std::int64_t stride, std::int64_t cols) {
  return rows > 0 ? static_cast<std::size_t>((rows - 1) * stride + cols) : 0;
}

/// What the products read.
struct Input {
  const float* x = nullptr;
  DeviceRows x8;
};

Input make_alone(OpContext& c, const LinearOp& op) {
  Input input;
  const std::int64_t stride = op.x_stride > 0 ? op.x_stride : op.cols;
  const std::size_t count = floats(op.rows, stride, op.cols);
  const float* x = c.memory.at(op.x, count);
  if (needs_quantized(op)) input.x8 = quantized_rows(c, op.rows, op.cols);
  float* made = needs_floats(op) && op.input ? c.memory.at(op.input, static_cast<std::size_t>(op.rows * op.cols)) : nullptr;
  input.x = op.input ? made : x;
  if (!op.input && !needs_quantized(op)) return input;
  const float* norm = op.norm ? c.memory.at(op.norm, static_cast<std::size_t>(op.cols)) : nullptr;
  const float* up = op.activation != Activation::kNone ? c.memory.at(op.up, count) : nullptr;
  c.kernels().make_input({x, norm, op.norm ? nullptr : up, stride, op.rows, op.cols, op.epsilon, made, input.x8}, c.device.stream());
  c.device.check("an input");
  return input;
}

void multiply(OpContext& c, const FormatKernels& kernels, const ProductArgs& args) {
  kernels.multiply(args, c.device.stream());
  c.device.check("a product");
}

/// A matrix that is not packed is packed for this product alone.
const std::byte* panels_of(OpContext& c, const Matrix& w, const FormatKernels& kernels) {
  const std::size_t bytes = packed_bytes(w);
  if (w.packed) return c.memory.at(w.packed, bytes);
  std::byte* panels = c.memory.scratch(Scratch::kPanels, bytes);
  const std::byte* source = c.memory.at(w.data, static_cast<std::size_t>(w.rows) * w.row_bytes);
  kernels.pack({source, w.row_bytes, 0, w.rows, w.cols, panels}, c.device.stream());
  c.device.check("packing weights");
  return panels;
}

/// Matrices of one type are multiplied together, those that are not packed singly.
void multiply_parts(OpContext& c, const LinearOp& op, const Input& input) {
  ProductArgs args{};
  const FormatKernels* kernels = nullptr;
  const auto flush = [&] {
    if (args.part_count > 0) multiply(c, *kernels, args);
    args.part_count = 0;
  };
  for (const LinearOp::Part& part : op.parts) {
    if (!part.weight) continue;
    const Matrix& w = *part.weight;
    const FormatKernels* its_kernels = &kernels_of(c, w.type);
    if (its_kernels != kernels || !w.packed) flush();
    kernels = its_kernels;
    args.row_bytes = w.row_bytes, args.cols = op.cols, args.x = input.x, args.x8 = input.x8, args.tokens = op.rows, args.add = op.add;
    const std::int64_t stride = part.stride > 0 ? part.stride : w.rows;
    args.parts[args.part_count++] = {panels_of(c, w, *kernels), 0, w.rows, c.memory.at(part.y, floats(op.rows, stride, w.rows)), stride};
    if (!w.packed) flush();
  }
  flush();
}

}  // namespace

bool run(OpContext& c, const LinearOp& op) {
  if (op.share.group) throw UsageError("device " + c.device.id() + " cannot be a member of a group of ranks; run the group on cores");
  refuse(c, op.x_each > 0, "latent attention");
  refuse(c, op.experts.any(), "a mixture of experts");
  refuse(c, std::ranges::any_of(op.parts, [](const auto& part) { return part.bias != nullptr; }), "biases");
  refuse(c, op.activation != Activation::kNone && (op.activation != Activation::kSilu || !op.up), "an activation other than SwiGLU");
  multiply_parts(c, op, make_alone(c, op));
  return true;
}

bool run(OpContext& c, const AllGatherOp&) {
  throw UsageError("device " + c.device.id() + " cannot be a member of a group of ranks; run the group on cores");
}

bool run(OpContext& c, const MeetOp&) {
  throw UsageError("device " + c.device.id() + " cannot share layers with other units; give it all of them, or none");
}

}  // namespace yamata::cuda
