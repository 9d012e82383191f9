#pragma once
// How a device's unit computes each operation: it puts kernels into the stream. An operation that has no function here the unit refuses.
#include <map>
#include <span>
#include <utility>

#include "node/cuda/unit_memory.hpp"
#include "node/op.hpp"

namespace yamata::cuda {

/// What the functions share during a list of operations.
struct OpContext {
  Device& device;
  UnitMemory memory;
  bool declined = false;  ///< the list is left at its first meeting

  /// The cells that rows see, as kernels read them: [rows + 1] and the cells.
  struct Visible {
    const std::int64_t* begins;
    const std::int32_t* cells;
    std::int64_t most, highest;  ///< cells of a row; the number of a cell
  };
  std::map<std::pair<const void*, std::int64_t>, Visible> visible;  ///< by AttentionOp::visible and rows

  explicit OpContext(Device& its_device) : device(its_device), memory(its_device) {}
  const DeviceKernels& kernels() const { return device.kernels(); }
};

// False: the group leaves the list here.
bool run(OpContext& context, const EmbedOp& op);
bool run(OpContext& context, const LinearOp& op);
bool run(OpContext& context, const StoreOp& op);
bool run(OpContext& context, const AttentionOp& op);
bool run(OpContext& context, const AttentionPartOp& op);
bool run(OpContext& context, const MergeAttentionOp& op);
bool run(OpContext& context, const GatherOp& op);
bool run(OpContext& context, const AllGatherOp& op);
bool run(OpContext& context, const MeetOp& op);
bool run(OpContext& context, const ReadOp& op);
bool run(OpContext& context, const PackOp& op);

/// Throws ModelError where `needed`: the device has no kernel for `what`.
void refuse(const OpContext& context, bool needed, const char* what);

/// Bytes of a matrix as the kernels want it.
std::size_t packed_bytes(const Matrix& matrix);

/// Of a format; refuses one that the device has none for.
const FormatKernels& kernels_of(const OpContext& c, TensorType type);

}  // namespace yamata::cuda
