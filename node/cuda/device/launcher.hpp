#pragma once
// Collects the launches of several operations, and launches them together.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "node/cuda/device/device.hpp"
#include "node/cuda/device/kept_graphs.hpp"
#include "node/cuda/device/launch_options.hpp"

namespace yamata::cuda {

/// Used by one thread. Everything in stream order goes through this class, so that nothing overtakes the collected launches.
///
/// Barriers: by default, the host waits for an event, waits for the other units on behalf of the device, and launches what comes next. With
/// `stream_waits`, the device sets a flag and waits for a second one, with the next launches already in its stream. The host polls the
/// first flag, waits for the others, and sets the second. While a stream waits, the thread makes no call that waits for the device: it
/// would never return. So everything that may allocate memory is done before launching, and afterwards all flags are set, whatever happens.
class Launcher final : public simt::LaunchSink {
 public:
  Launcher(Device& device, LaunchOptions options) : device_(device), options_(options), graphs_(device) {}
  /// Waits for the end of the stream, which may be polling flags.
  ~Launcher() override;

  Device& device() const { return device_; }
  void put(const simt::Launch& launch) override;
  /// Names the launches since the last call, for errors.
  void named(const char* what);

  /// Begins a list with at most so many barriers; `alone`: no other device of this process is in use.
  void begin(const ListShape& list, std::size_t barriers, bool alone);
  /// Calls `wait` when the device has reached this point. False, now or from a later call: all leave the list, and nothing more is
  /// launched. `wait` must outlive the last flush of this list.
  bool barrier(std::function<bool()> wait, bool exchanges);
  /// Number of barriers with exchanges that are still to come.
  std::size_t exchanges_ahead() const;
  bool was_stopped() const { return was_stopped_; }

  /// Launches what was collected, and waits at the barriers.
  void flush();
  /// Discards what was collected.
  void drop() { collected_.clear(), ahead_.clear(); }

  // Those of the device, after a flush.
  std::uint64_t mark();
  void wait(std::uint64_t mark) { device_.wait(mark); }
  void synchronize();
  void copy_in(void* to, const void* from, std::size_t bytes);
  /// When everything that was launched before has ended.
  std::uint64_t copy_beside(void* to, const void* from, std::size_t bytes);
  void await_copy(std::uint64_t copy);

  bool stream_waits() const { return waits_; }
  const GraphCounts& counts() const { return graphs_.counts(); }

 private:
  struct alignas(64) Flags {
    std::uint32_t came, goes_on;
  };
  struct Ahead {
    Flags* flags;
    std::function<bool()> wait;
    bool exchanges;
  };
  void give();
  void wait_at_barriers();
  void await(const std::uint32_t* flag);

  Device& device_;
  const LaunchOptions options_;
  KeptGraphs graphs_;
  std::vector<simt::Launch> collected_;
  std::size_t named_ = 0;
  bool was_stopped_ = false, waits_ = false;
  std::unique_ptr<DeviceBuffer> flags_;
  std::size_t barriers_ = 0;  // number of barriers of this list with flags
  std::vector<Ahead> ahead_;
};

}  // namespace yamata::cuda
