// Products and their inputs.
#include <algorithm>

#include "node/cpu/kernels/repack.hpp"
#include "node/cuda/ops/ops.hpp"
#include "node/device_scratch.hpp"

namespace yamata::cuda {
namespace {

static_assert(DeviceRows::kBlockBytes == kDeviceBlockBytes, "the memory plan counts other blocks than there are");

/// Memory for rows of so many columns.
DeviceRows quantized_rows(OpContext& c, std::int64_t rows, std::int64_t cols) {
  const std::int64_t blocks = (cols + 31) / 32, all = rows * blocks;
  std::byte* memory = c.memory.scratch(Scratch::kQuantized, static_cast<std::size_t>(all * DeviceRows::kBlockBytes));
  auto* scales = reinterpret_cast<float*>(memory + 32 * all);
  return {reinterpret_cast<std::int8_t*>(memory), scales, reinterpret_cast<std::int16_t*>(scales + all), blocks, rows};
}

std::size_t floats(std::int64_t rows, std::int64_t stride, std::int64_t cols) {
  return rows > 0 ? static_cast<std::size_t>((rows - 1) * stride + cols) : 0;
}

/// The input of products.
struct Input {
  const float* x = nullptr;
  DeviceRows x8;

  /// Some of its rows.
  Input rows(std::int64_t begin, std::int64_t count, std::int64_t cols) const {
    Input some = *this;
    if (x) some.x += begin * cols;
    some.x8.rows = count;
    if (!x8.values) return some;
    some.x8.values += begin * x8.blocks * 32, some.x8.scales += begin * x8.blocks, some.x8.sub_sums += begin * x8.blocks * 2;
    return some;
  }
};

/// The own columns of x, and of up, as they are.
struct Source {
  const float *x, *up = nullptr;
  std::int64_t stride;
  Activation activation = Activation::kNone;
};

Source source_of(OpContext& c, const LinearOp& op) {
  const std::int64_t own = op.share.end(op.cols) - op.share.begin();
  Source s{.x = nullptr, .up = nullptr, .stride = op.x_stride > 0 ? op.x_stride : own, .activation = op.activation};
  if (op.x_of_tokens) {  // fewer rows than pairs of a token and an expert
    std::int32_t last = 0;
    for (std::int64_t pair = 0; pair < op.rows; ++pair) last = std::max(last, op.experts.tokens[pair]);
    const std::int64_t each = op.x_each > 0 ? (op.experts.experts - 1) * op.x_each : 0;
    const float* x = c.memory.at(op.x, floats(last + 1, s.stride, own + each));
    auto* pairs = reinterpret_cast<float*>(c.memory.scratch(Scratch::kWhole, floats(op.rows, own, own) * sizeof(float)));
    const auto numbers = [&](const std::int32_t* all) { return c.memory.put(std::span(all, static_cast<std::size_t>(op.rows))); };
    const std::int32_t* parts = op.x_each > 0 ? numbers(op.experts.chosen) : nullptr;
    c.kernels().gather({x, own, op.rows, numbers(op.experts.tokens), pairs, s.stride, parts, op.x_each}, c.stream());
    c.check("gathering the experts' rows");
    s.x = pairs, s.stride = own;
    return s;
  }
  const std::size_t count = floats(op.rows, s.stride, own);
  s.x = c.memory.at(op.x, count);
  if (op.activation != Activation::kNone && op.up) s.up = c.memory.at(op.up, count);
  return s;
}

const float* norm_of(OpContext& c, const LinearOp& op) {
  return op.norm ? c.memory.at(op.norm, static_cast<std::size_t>(op.cols)) : nullptr;
}

/// The input from whole rows.
Input make_input(OpContext& c, const LinearOp& op, const Source& source) {
  Input input;
  const bool quantizes = needs_quantized(op);
  if (quantizes) input.x8 = quantized_rows(c, op.rows, op.cols);
  float* made = needs_floats(op) && op.input ? c.memory.at(op.input, static_cast<std::size_t>(op.rows * op.cols)) : nullptr;
  input.x = op.input ? made : source.x;
  if (!made && !quantizes) return input;
  c.kernels().make_input(
      {source.x, norm_of(c, op), source.up, source.stride, op.rows, op.cols, op.epsilon, made, input.x8, source.activation}, c.stream());
  c.check("an input");
  return input;
}

/// The own columns as blocks, before the division by the root mean square.
void encode(OpContext& c, const LinearOp& op, const Source& source, const Slices& all) {
  const SliceLayout& layout = all.layout;
  const int member = layout.share.group->own();
  const std::int64_t begin = op.share.begin(), blocks = layout.blocks(member), first = layout.own_first();
  float* squares = all.payload<float>(member);
  auto* encoded = reinterpret_cast<cpu::EncodedBlock*>(squares + (op.norm ? op.rows * blocks : 0)) + first;
  const float* norm = norm_of(c, op);
  c.kernels().encode({source.x, norm ? norm + begin : nullptr, source.up, source.stride, op.rows, op.share.end(op.cols) - begin,
                      reinterpret_cast<std::byte*>(encoded), squares + first, blocks, source.activation},
                     c.stream());
  c.check("copying blocks to the others");
}

/// All members' blocks, divided by the root mean square of the whole row.
Input decode(OpContext& c, const LinearOp& op, const Slices& all) {
  const SliceLayout& layout = all.layout;
  std::vector<DecodeArgs::Member> members;
  for (int m = 0; m < layout.share.group->members(); ++m) {
    const float* squares = all.payload<float>(m);
    const std::int64_t count = layout.blocks(m);
    const float* blocks = squares + (op.norm ? op.rows * count : 0);
    members.push_back({reinterpret_cast<const std::byte*>(blocks), squares, layout.blocks_before(m), count});
  }
  const Input input{nullptr, quantized_rows(c, op.rows, op.cols)};
  const auto* known = c.memory.put(std::span<const DecodeArgs::Member>(members));
  c.kernels().decode({known, static_cast<int>(members.size()), op.norm != nullptr, op.cols, op.epsilon, input.x8}, c.stream());
  c.check("copying blocks of the others");
  return input;
}

/// Nothing if all leave the list.
std::optional<Input> make_together(OpContext& c, const LinearOp& op) {
  const Slices all = slices(c, slices_of(op));
  const bool whole = needs_floats(op);
  if (!c.declined) {
    const Source own = source_of(c, op);
    if (whole)
      put_columns(c, all, {own.x, own.up, own.stride, op.rows, op.share.end(op.cols) - op.share.begin(), nullptr, 0, own.activation});
    else
      encode(c, op, own, all);
  }
  if (!exchange(c, all)) return std::nullopt;
  if (!whole) return decode(c, op, all);
  auto* x = reinterpret_cast<float*>(c.memory.scratch(Scratch::kWhole, static_cast<std::size_t>(op.rows * op.cols) * sizeof(float)));
  take_columns(c, all, {0, op.rows}, x, op.cols);
  return make_input(c, op, {.x = x, .stride = op.cols});
}

/// The panels of a matrix, of which `rows` are read. An unpacked matrix is packed for this product only.
const std::byte* panels_of(OpContext& c, const Matrix& w, OpRange rows, const FormatKernels& kernels) {
  const std::size_t bytes = packed_bytes(w);
  if (const std::byte* copy = w.packed ? c.copies.of(w.packed) : nullptr) return copy;
  if (w.packed) return c.memory.at(w.packed, bytes);
  constexpr std::int64_t kPanelRows = 32;
  std::byte* panels = c.memory.scratch(Scratch::kPanels, bytes);
  const std::int64_t begin = rows.begin / kPanelRows * kPanelRows;
  const std::byte* source = c.memory.at(w.data, static_cast<std::size_t>(w.rows) * w.row_bytes);
  kernels.pack({source, w.row_bytes, begin, rows.end, w.cols, panels}, c.stream());
  c.check("packing weights");
  return panels;
}

/// The rows of an operation for one expert.
struct Rows {
  std::int64_t first, count, expert;
};

/// Results of these rows for a part.
float* results_of(OpContext& c, const LinearOp& op, const LinearOp::Part& part, std::int64_t stride, const Rows& rows) {
  if (part.y_each > 0) return c.memory.at(part.y + rows.expert * part.y_each, floats(rows.count, stride, part.weight->rows));
  return c.memory.at(part.y, floats(op.rows, stride, part.weight->rows)) + rows.first * stride;
}

/// The products of some rows with all matrices. Matrices of one type are multiplied in one launch; unpacked
/// ones in one launch each.
void multiply(OpContext& c, const LinearOp& op, const Input& input, const Rows& rows) {
  ProductArgs args{};
  const FormatKernels* kernels = nullptr;
  const auto flush = [&] {
    if (args.part_count > 0) {
      kernels->multiply(args, c.stream());
      c.check("a product");
    }
    args.part_count = 0;
  };
  for (const LinearOp::Part& part : op.parts) {
    if (!part.weight) continue;
    const Matrix& w = part.weight[rows.expert];
    const OpRange outputs{part.outputs.begin, part.outputs.end_of(w.rows)};
    if (outputs.begin >= outputs.end) continue;
    const FormatKernels* its_kernels = &kernels_of(c, w.type);
    if (its_kernels != kernels || !w.packed || args.part_count == kMaxParts) flush();
    kernels = its_kernels;
    args.row_bytes = cpu::has_panels(w.type) ? cpu::packed_row_bytes(w.type, w.row_bytes) : w.row_bytes;
    args.cols = op.cols, args.x = input.x, args.x8 = input.x8, args.tokens = rows.count, args.add = op.add;
    const std::int64_t stride = part.stride > 0 ? part.stride : w.rows;
    args.parts[args.part_count++] = {panels_of(c, w, outputs, *kernels), outputs.begin, outputs.end, results_of(c, op, part, stride, rows),
                                     stride};
    if (!w.packed) flush();
  }
  flush();
}

void scale_and_add_biases(OpContext& c, const LinearOp& op, const Rows& rows) {
  for (const LinearOp::Part& part : op.parts) {
    const float* scale = part.weight ? part.weight[rows.expert].scale : nullptr;
    if (!part.weight || (!part.bias && !scale)) continue;
    const std::int64_t count = part.weight->rows, stride = part.stride > 0 ? part.stride : count;
    BiasArgs a{results_of(c, op, part, stride, rows), stride, rows.count, part.outputs.begin, part.outputs.end_of(count)};
    if (part.bias) a.bias = c.memory.at(part.bias + rows.expert * part.bias_stride, static_cast<std::size_t>(count));
    if (scale) a.scale = c.memory.at(scale, 1);
    c.kernels().add_bias(a, c.stream());
    c.check("adding biases");
  }
}

}  // namespace

bool run(OpContext& c, const LinearOp& op) {
  const std::optional<Input> input = op.share.group ? make_together(c, op) : make_input(c, op, source_of(c, op));
  if (!input) return false;
  const std::int64_t experts = op.experts.any() ? op.experts.experts : 1;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const std::int64_t first = op.experts.any() ? op.experts.first[expert] : 0;
    const Rows rows{first, op.experts.any() ? op.experts.first[expert + 1] - first : op.rows, expert};
    if (rows.count == 0) continue;
    multiply(c, op, input->rows(first, rows.count, op.cols), rows);
    scale_and_add_biases(c, op, rows);
  }
  return true;
}

}  // namespace yamata::cuda
