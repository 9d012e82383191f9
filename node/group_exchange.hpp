#pragma once
// The all-gather between ranks that share a layer: each computes some of its columns (tensor parallelism).
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

/// Header of a slice.
struct SliceHeader {
  std::uint32_t exchange = 0;  ///< counts the exchanges of the group
  std::uint32_t gives_up = 0;  ///< 1: this member wants to cancel the run; then all members leave it here
};

/// Time of an exchange.
struct ExchangeTime {
  std::chrono::steady_clock::time_point begin, end;
};

/// Used by one thread of a unit at a time; only `abandon` may be called by others. All members of a group do the same exchanges in the same
/// order.
class GroupExchange {
 public:
  virtual ~GroupExchange() = default;
  virtual int members() const = 0;
  virtual int own() const = 0;
  /// All-gather. `slices` holds one slice per member: member m's from ends[m - 1] (0 for the first) to ends[m]. Each begins with a
  /// SliceHeader, which this function fills in. The own slice must be filled before; the others are when this returns. True if all members
  /// go on; false if a member wants to cancel the run, or after abandon().
  virtual bool all_gather(std::span<std::byte> slices, std::span<const std::size_t> ends, bool go_on) = 0;
  /// Memory for `bytes` bytes of slices, if several units of a member write its slice together. It is the same for all of them until the
  /// next exchange (`ahead` = 0), the one after that (`ahead` = 1), and so on. Empty: the caller uses its own memory.
  virtual std::span<std::byte> shared_slices(std::size_t /*bytes*/, std::size_t /*ahead*/ = 0) { return {}; }
  /// Ends all waits for other members, because the job is ending. From any thread.
  virtual void abandon() = 0;
  /// A member that this rank has been waiting for during the last 0.2 s or longer; -1: none. From any thread.
  virtual int awaited() const { return -1; }
  /// Seconds spent in finished exchanges. From any thread, like bytes_sent.
  virtual double seconds() const { return 0; }
  /// To all other members together.
  virtual std::uint64_t bytes_sent() const { return 0; }
  /// Records the times of exchanges from now on, for a trace. Call it before the first exchange.
  virtual void keep_times() {}
  /// The times of finished exchanges, in order. From any thread.
  virtual std::vector<ExchangeTime> times() const { return {}; }
};

/// The offset of a member's slice.
inline std::size_t slice_begin(std::span<const std::size_t> ends, int member) {
  return member == 0 ? 0 : ends[static_cast<std::size_t>(member) - 1];
}

/// Reads the headers of all slices; true if all members go on. Throws ClusterError if a slice belongs to another exchange.
bool all_go_on(std::span<const std::byte> slices, std::span<const std::size_t> ends, std::uint32_t exchange);

}  // namespace yamata
