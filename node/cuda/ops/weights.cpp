// Loading and packing of weights.
#include <algorithm>

#include "node/cpu/kernels/repack.hpp"
#include "node/cuda/ops/ops.hpp"
#include "node/device_scratch.hpp"
#include "node/error.hpp"

namespace yamata::cuda {
namespace {

constexpr int kPanelRows = 32;
constexpr std::int64_t kFloatGroup = 128;

std::int64_t round_up(std::int64_t n, std::int64_t grain) { return (n + grain - 1) / grain * grain; }

}  // namespace

void refuse(const OpContext& c, bool needed, const std::string& what) {
  if (needed) throw ModelError("this model needs " + what + ", which device " + c.device.id() + " has no kernel for; run it on the CPU");
}

const FormatKernels& kernels_of(const OpContext& c, TensorType type) {
  const FormatKernels* kernels = c.kernels().formats[static_cast<std::size_t>(type)];
  refuse(c, kernels == nullptr, "weights of type " + std::string(traits(type).name));
  return *kernels;
}

std::size_t packed_bytes(const Matrix& m) {
  if (cpu::has_panels(m.type)) return cpu::packed_bytes(m.type, m.rows, m.row_bytes, kPanelRows);
  return static_cast<std::size_t>(m.rows * round_up(m.cols, kFloatGroup)) * traits(m.type).block_bytes;
}

/// Reads pages of the file; the device copies what it will use.
bool run(OpContext& c, const ReadOp& op) {
  constexpr std::int64_t kPage = 4096;
  const volatile std::byte* bytes = op.bytes.data();
  for (std::int64_t at = op.own.begin; at < op.own.end_of(std::ssize(op.bytes)); at += kPage) static_cast<void>(bytes[at]);
  c.memory.constant(op.bytes);
  return true;
}

/// Copies rows to the device in the layout of the file, some at a time, and packs them there. They begin at a whole panel.
bool run(OpContext& c, const PackOp& op) {
  const Matrix& m = *op.matrix;
  const FormatKernels& kernels = kernels_of(c, m.type);
  std::byte* panels = c.memory.at(op.to, packed_bytes(m));
  const auto most = static_cast<std::int64_t>(kDeviceStagingBytes / m.row_bytes) / kPanelRows * kPanelRows;
  const std::int64_t step = c.device.properties().reads_host ? m.rows : std::max<std::int64_t>(kPanelRows, most);
  for (std::int64_t begin = op.rows.begin; begin < op.rows.end_of(m.rows); begin += step) {
    const std::int64_t end = std::min(begin + step, op.rows.end_of(m.rows));
    const std::byte* source = m.data;
    if (!c.device.properties().reads_host) {
      const std::size_t bytes = static_cast<std::size_t>(end - begin) * m.row_bytes;
      std::byte* staging = c.memory.scratch(Scratch::kSource, static_cast<std::size_t>(step) * m.row_bytes);
      c.launcher.copy_in(staging, m.data + static_cast<std::size_t>(begin) * m.row_bytes, bytes);
      source = staging - static_cast<std::size_t>(begin) * m.row_bytes;
    }
    kernels.pack({source, m.row_bytes, begin, end, m.cols, panels}, c.stream());
    c.check("packing weights");
  }
  return true;
}

}  // namespace yamata::cuda
