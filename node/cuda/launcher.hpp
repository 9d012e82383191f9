#pragma once
// Between a device's unit and its device: launches of several operations are collected, and given to the device together.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "node/cuda/device.hpp"
#include "node/cuda/kept_graphs.hpp"
#include "node/cuda/launch_options.hpp"

namespace yamata::cuda {

/// Used by one thread. Whatever the device does in order of its stream goes by this, so that nothing overtakes the launches collected.
///
/// Meetings. The host meets for the device: it waits for an event, meets, and gives the device what comes next. Or, where `stream_waits`,
/// the device raises a flag and waits for another; what comes next is in its stream by then, and the host looks at the one, meets, and
/// raises the other. While a stream waits, the thread makes no call of the device's: one that waits for the device would never return. So
/// all that may need memory is done before the launches are given to the device, and whatever happens then, all flags are raised.
class Launcher final : public simt::LaunchSink {
 public:
  Launcher(Device& device, LaunchOptions options) : device_(device), options_(options), graphs_(device) {}
  /// When the stream is at its end: it may be looking at flags.
  ~Launcher() override;

  Device& device() const { return device_; }
  void put(const simt::Launch& launch) override;
  /// What the launches since the last call are.
  void named(const char* what);

  /// Before a list of at most so many meetings; `alone`: no other device of this process is in use.
  void begin(const ListShape& list, std::size_t meetings, bool alone);
  /// Meets for the device when it has come so far. False, at once or at a later call: all leave the list, and what comes after it is not
  /// launched. `meet` outlives this list's last flush.
  bool meet(std::function<bool()> meet, bool exchanges);
  /// Meetings that exchange slices and are still to take place.
  std::size_t exchanges_ahead() const;
  bool left() const { return left_; }

  /// Gives the device what has been collected, and meets.
  void flush();
  /// Forgets it.
  void drop() { collected_.clear(), ahead_.clear(); }

  // Of the device, after a flush.
  std::uint64_t mark();
  void wait(std::uint64_t mark) { device_.wait(mark); }
  void synchronize();
  void copy_in(void* to, const void* from, std::size_t bytes);

  bool stream_waits() const { return waits_; }
  const GraphCounts& counts() const { return graphs_.counts(); }

 private:
  struct alignas(64) Flags {
    std::uint32_t came, goes_on;
  };
  struct Ahead {
    Flags* flags;
    std::function<bool()> meet;
    bool exchanges;
  };
  void give();
  void meet_ahead();
  void await(const std::uint32_t* flag);

  Device& device_;
  const LaunchOptions options_;
  KeptGraphs graphs_;
  std::vector<simt::Launch> collected_;
  std::size_t named_ = 0;
  bool left_ = false, waits_ = false;
  std::unique_ptr<DeviceBuffer> flags_;
  std::size_t met_ = 0;  // meetings of this list that have flags
  std::vector<Ahead> ahead_;
};

}  // namespace yamata::cuda
