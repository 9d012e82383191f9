#pragma once
// Something that computes: a group of CPU cores now, a device later.
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

/// The largest runs that a unit is to compute, by which it says what memory of its own it needs.
struct ScratchNeeds {
  std::int64_t rows = 0;    ///< tokens of a run
  std::int64_t widest = 0;  ///< columns of the widest matrix
  std::int64_t heads = 0, head_dim = 0;
};

class ComputeUnit;

/// Operations of a list, from the end of the part before up to `end`, that one of a unit's units computes alone.
struct ListPart {
  ComputeUnit* unit;
  std::size_t end;
};

class ComputeUnit {
 public:
  virtual ~ComputeUnit() = default;
  /// Begins to run the operations in order, each seeing the results of those before; returns at once. One list at a time;
  /// the list outlives its run. Where `*stop` turns true the rest is skipped at the next operation's boundary; of a list that a group of
  /// ranks computes together, at the next meeting, and by all of them.
  virtual void start(std::span<const Op> ops, const std::atomic<bool>* stop) = 0;
  /// The same of a list whose parts are for first_unit() and rest_unit(); they outlive its run, too.
  virtual void start_parts(std::span<const Op> ops, std::span<const ListPart> parts, const std::atomic<bool>* stop);
  /// Of units that have whole layers each, who computes the first layers of a model; and who computes its other layers, and whatever is no
  /// layer. Any other unit computes all. Each packs, and has memory for weights and cache, for itself; activations are in memory of this.
  virtual ComputeUnit& first_unit() { return *this; }
  virtual ComputeUnit& rest_unit() { return *this; }
  virtual bool finished() const = 0;
  /// Waits for the end at most this long; true when it has come. A fault while computing is thrown here.
  virtual bool wait_for(std::chrono::microseconds limit) = 0;
  /// After its end: whether the latest list was left before it.
  virtual bool left() const { return false; }
  /// Whom to tell of the end of every list, on a thread of the unit's; nobody any more once this has returned with an empty function.
  virtual void when_finished(std::function<void()>) {}
  /// Bytes of a matrix packed for this unit, or 0 where it reads the file's layout as well as any other.
  virtual std::size_t packed_bytes(const Matrix& matrix) const = 0;
  /// Memory of zeros that belongs to this unit. Throws std::bad_alloc.
  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes, BufferUse use);
  /// What it computes on, for statistics: "cpu".
  virtual std::string device() const { return "cpu"; }
  /// Operations ended since the unit was made: a sign of life.
  virtual std::uint64_t progress() const = 0;
  /// Seconds spent computing since the unit was made.
  virtual double busy_seconds() const = 0;
  virtual std::string isa() const = 0;
  virtual int threads() const = 0;

  /// Pretends to be a slower machine: pauses after each operation, so that it takes so many times what it took. For emulated clusters.
  virtual void slow_down(double) {}

  /// For several users on one control thread: takes the unit until release, or says false while another has it.
  bool claim() { return !std::exchange(claimed_, true); }
  void release() { claimed_ = false; }

 private:
  bool claimed_ = false;
};

}  // namespace yamata
