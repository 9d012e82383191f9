#pragma once
// How a device's unit computes each operation: it launches kernels into the stream.
#include <atomic>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "node/cpu/slice_layout.hpp"
#include "node/cuda/device/unit_memory.hpp"
#include "node/cuda/device/weight_copies.hpp"
#include "node/op.hpp"

namespace yamata::cuda {

struct OpContext;
/// Throws ModelError if `needed`: the device has no kernel for `what`.
void refuse(const OpContext& c, bool needed, const std::string& what);

/// State that the functions share during a list of operations.
struct OpContext {
  Device& device;
  Launcher launcher;
  UnitMemory memory;
  WeightCopies copies;
  bool declined = false;  ///< compute nothing, and leave the list at its first barrier
  const std::atomic<bool>* stop = nullptr;
  bool* finished = nullptr;  ///< to be set to true at the end of the list, if it is not left

  /// The cells that are visible to rows, for kernels: [rows + 1] offsets, and the cells.
  struct Visible {
    const std::int64_t* begins = nullptr;
    const std::int32_t* cells = nullptr;
    std::int64_t most = 0, highest = 0;  ///< largest number of cells of a row; highest cell
  };
  std::map<std::pair<const void*, std::int64_t>, Visible> visible;  ///< by AttentionOp::visible and rows

  OpContext(Device& its_device, LaunchOptions options)
      : device(its_device), launcher(its_device, options), memory(launcher), copies(launcher, memory) {}
  const DeviceKernels& kernels() const { return device.kernels(); }
  Stream stream() { return &launcher; }
  /// After launches: names them, for errors.
  void check(const char* what) { launcher.named(what); }
  /// Whether this unit wants the rest of the list.
  bool wants() const { return !declined && !(stop && stop->load(std::memory_order_relaxed)); }
  /// Waits until the device has done everything so far, so that others can read the results.
  void catch_up() { launcher.wait(launcher.mark()); }
};

// They return false if all units leave the list here.
bool run(OpContext& context, const EmbedOp& op);
bool run(OpContext& context, const LinearOp& op);
bool run(OpContext& context, const StoreOp& op);
bool run(OpContext& context, const AttentionOp& op);
bool run(OpContext& context, const AttentionPartOp& op);
bool run(OpContext& context, const MergeAttentionOp& op);
bool run(OpContext& context, const GatherOp& op);
bool run(OpContext& context, const AllGatherOp& op);
bool run(OpContext& context, const BarrierOp& op);
bool run(OpContext& context, const NormOp& op);
bool run(OpContext& context, const AddOp& op);
bool run(OpContext& context, const ResizeOp& op);
bool run(OpContext& context, const ScaleOp& op);
bool run(OpContext& context, const HighestOp& op);
bool run(OpContext& context, const RouterOp& op);
bool run(OpContext& context, const ReadOp& op);
bool run(OpContext& context, const PackOp& op);
bool run(OpContext& context, const StateInputsOp& op);
bool run(OpContext& context, const DeltaRuleOp& op);
bool run(OpContext& context, const ScanOp& op);
bool run(OpContext& context, const GatedConvolutionOp& op);
bool run(OpContext& context, const HeadGateOp& op);
bool run(OpContext& context, const UngateOp& op);
bool run(OpContext& context, const PickOp& op);
bool run(OpContext& context, const PoolOp& op);
bool run(OpContext& context, const FarConvolutionOp& op);
bool run(OpContext& context, const LikenessOp& op);

/// Slices of all who exchange columns, in memory that all of them and the device can access.
struct Slices {
  SliceLayout layout;
  std::byte* memory;

  /// The data of a member's slice, after its header.
  template <class T>
  T* payload(int member) const {
    return reinterpret_cast<T*>(memory + layout.payload(member));
  }
};
Slices slices(OpContext& context, const SliceLayout& layout);
/// Exchanges the slices, when the device has written its own. False: all leave the list.
bool exchange(OpContext& context, const Slices& slices);
/// Writes columns of x, or of its activation, into the own slice of floats.
void put_columns(OpContext& context, const Slices& slices, const CopyArgs& columns);
/// Collects all members' columns of some rows, in rows of `cols`.
void take_columns(OpContext& context, const Slices& slices, OpRange rows, float* all, std::int64_t cols);

/// Bytes of a packed matrix.
std::size_t packed_bytes(const Matrix& matrix);

/// The kernels of a format; throws if the device has none.
const FormatKernels& kernels_of(const OpContext& c, TensorType type);

}  // namespace yamata::cuda
