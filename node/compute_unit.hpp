#pragma once
// A compute unit: a group of CPU cores, or a device (GPU).
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "node/buffer.hpp"
#include "node/op.hpp"

namespace yamata {

/// The largest runs that a unit must compute; they determine how much scratch memory it needs.
struct ScratchNeeds {
  std::int64_t rows = 0;    ///< tokens of a run
  std::int64_t widest = 0;  ///< columns of the widest matrix
  std::int64_t heads = 0, head_dim = 0;
  std::int64_t logits = 0;  ///< floats of logits of a run
  bool scores = false;      ///< an index scores cells
};

class ComputeUnit;

/// The operations of a list from the end of the previous part up to `end`, which one of several units computes alone.
struct ListPart {
  ComputeUnit* unit;
  std::size_t end;
};

/// What was copied into a device's memory because its weights are the host's, since the unit's construction.
struct CopiedWeights {
  std::uint64_t bytes = 0;
  double wait_s = 0;  ///< part of busy_seconds() in which the device waited for copies
};

class ComputeUnit {
 public:
  virtual ~ComputeUnit() = default;
  /// Starts to run the operations in order, each with the results of the earlier ones; returns at once. One list at a time; the list must
  /// outlive its run. When `*stop` becomes true, the rest is skipped after the current operation; if a group of ranks computes the list,
  /// after the next exchange, by all of them.
  virtual void start(std::span<const Op> ops, const std::atomic<bool>* stop) = 0;
  /// The same for a list with parts for first_unit() and rest_unit(); the parts must outlive the run, too.
  virtual void start_parts(std::span<const Op> ops, std::span<const ListPart> parts, const std::atomic<bool>* stop);
  /// If two units have whole layers each: the one that computes the first layers of a model, and the one that computes its other layers and
  /// everything outside the layers. Any other unit computes all. Each of them packs weights and has memory for weights and cache for
  /// itself; activations are in the memory of this unit.
  virtual ComputeUnit& first_unit() { return *this; }
  virtual ComputeUnit& rest_unit() { return *this; }
  virtual bool finished() const = 0;
  /// Waits for the end of the list, at most this long; true if it has ended. Errors of the computation are thrown here.
  virtual bool wait_for(std::chrono::microseconds limit) = 0;
  /// After the end of the latest list: whether it was stopped before its last operation.
  virtual bool was_stopped() const { return false; }
  /// Sets a function that a thread of the unit calls at the end of every list. With an empty function, no calls happen after this returns.
  virtual void when_finished(std::function<void()>) {}
  /// Bytes of a matrix packed for this unit, or 0 if the unit reads the file's layout equally well.
  virtual std::size_t packed_bytes(const Matrix& matrix) const = 0;
  /// Zeroed memory of this unit. Throws std::bad_alloc.
  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes, BufferUse use);
  /// What it computes on, for statistics: "cpu".
  virtual std::string device() const { return "cpu"; }
  /// Number of operations completed since construction, as a sign of progress.
  virtual std::uint64_t progress() const = 0;
  /// Seconds spent computing since construction.
  virtual double busy_seconds() const = 0;
  /// As of the end of the latest list.
  virtual CopiedWeights copied_weights() const { return {}; }
  virtual std::string isa() const = 0;
  virtual int threads() const = 0;

  /// Emulates a slower machine: pauses after each operation, so that it takes this many times as long. For emulated clusters.
  virtual void slow_down(double) {}

  /// For several users on one control thread: reserves the unit until release(); false if another user has it.
  bool claim() { return !std::exchange(claimed_, true); }
  void release() { claimed_ = false; }

 private:
  bool claimed_ = false;
};

}  // namespace yamata
