#pragma once
// How a device's unit computes each operation: it puts kernels into the stream.
#include <atomic>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "node/cpu/slice_layout.hpp"
#include "node/cuda/unit_memory.hpp"
#include "node/op.hpp"

namespace yamata::cuda {

/// What the functions share during a list of operations.
struct OpContext {
  Device& device;
  Launcher launcher;
  UnitMemory memory;
  bool declined = false;  ///< nothing is computed; the list is left at its first meeting
  const std::atomic<bool>* stop = nullptr;

  /// The cells that rows see, as kernels read them: [rows + 1] and the cells.
  struct Visible {
    const std::int64_t* begins;
    const std::int32_t* cells;
    std::int64_t most, highest;  ///< cells of a row; the number of a cell
  };
  std::map<std::pair<const void*, std::int64_t>, Visible> visible;  ///< by AttentionOp::visible and rows

  OpContext(Device& its_device, LaunchOptions options) : device(its_device), launcher(its_device, options), memory(launcher) {}
  const DeviceKernels& kernels() const { return device.kernels(); }
  Stream stream() { return &launcher; }
  /// After launches: what they are, for errors.
  void check(const char* what) { launcher.named(what); }
  /// Whether this unit wants the rest of the list.
  bool wants() const { return !declined && !(stop && stop->load(std::memory_order_relaxed)); }
  /// Until the device has done all that it has been given: others are to see it.
  void catch_up() { launcher.wait(launcher.mark()); }
};

// False: all who meet here leave the list.
bool run(OpContext& context, const EmbedOp& op);
bool run(OpContext& context, const LinearOp& op);
bool run(OpContext& context, const StoreOp& op);
bool run(OpContext& context, const AttentionOp& op);
bool run(OpContext& context, const AttentionPartOp& op);
bool run(OpContext& context, const MergeAttentionOp& op);
bool run(OpContext& context, const GatherOp& op);
bool run(OpContext& context, const AllGatherOp& op);
bool run(OpContext& context, const MeetOp& op);
bool run(OpContext& context, const NormOp& op);
bool run(OpContext& context, const AddOp& op);
bool run(OpContext& context, const ScaleOp& op);
bool run(OpContext& context, const HighestOp& op);
bool run(OpContext& context, const RouterOp& op);
bool run(OpContext& context, const ReadOp& op);
bool run(OpContext& context, const PackOp& op);

/// Slices of those who put columns together, in memory that all of them and the device know.
struct Slices {
  SliceLayout layout;
  std::byte* memory;

  /// What a member's slice has behind its header.
  template <class T>
  T* payload(int member) const {
    return reinterpret_cast<T*>(memory + layout.payload(member));
  }
};
Slices slices(OpContext& context, const SliceLayout& layout);
/// Gives the others the own slice, once the device has written it. False: they leave the list here.
bool exchange(OpContext& context, const Slices& slices);
/// Columns into the own slice of floats: x, `stride` apart, or with an activation its values.
void put_columns(OpContext& context, const Slices& slices, const CopyArgs& columns);
/// All members' columns of some rows, into rows of `cols`.
void take_columns(OpContext& context, const Slices& slices, OpRange rows, float* all, std::int64_t cols);

/// Bytes of a matrix as the kernels want it.
std::size_t packed_bytes(const Matrix& matrix);

/// Throws ModelError where `needed`: the device has no kernel for `what`.
void refuse(const OpContext& c, bool needed, const std::string& what);

/// Of a format; refuses one that the device has none for.
const FormatKernels& kernels_of(const OpContext& c, TensorType type);

}  // namespace yamata::cuda
