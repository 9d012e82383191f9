#pragma once
// The meeting of ranks that share a layer: each computes some of its columns (tensor parallelism).
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

/// What a slice begins with.
struct SliceHeader {
  std::uint32_t exchange = 0;  ///< counts the exchanges of the group
  std::uint32_t gives_up = 0;  ///< this member wants the run no more: all leave it here
};

/// When an exchange took place.
struct ExchangeTime {
  std::chrono::steady_clock::time_point begin, end;
};

/// Used by one thread of a unit at a time, but for abandon. All members of a group do the same exchanges in the same order.
class GroupExchange {
 public:
  virtual ~GroupExchange() = default;
  virtual int members() const = 0;
  virtual int own() const = 0;
  /// All-gather: `slices` holds one slice per member, member m's from ends[m - 1] (0 for the first) to ends[m]. Each begins with a
  /// SliceHeader, which this fills in. The own one is there; the others' are when this returns. True if all members go on; false if one of
  /// them gives up, or this one abandons them.
  virtual bool all_gather(std::span<std::byte> slices, std::span<const std::size_t> ends, bool go_on) = 0;
  /// Memory for so many bytes of slices where the units of a member write its slice together, the same for all of them until the exchange
  /// that follows, or, `ahead` of 1, until the one after that, and so on; empty: the caller has its own.
  virtual std::span<std::byte> shared_slices(std::size_t /*bytes*/, std::size_t /*ahead*/ = 0) { return {}; }
  /// Nobody waits for the others any more: the job is ending. From any thread.
  virtual void abandon() = 0;
  /// A member that has been waited for a fifth of a second or longer; -1: none. From any thread.
  virtual int awaited() const { return -1; }
  /// Seconds spent in exchanges that have ended. From any thread, as bytes_sent.
  virtual double seconds() const { return 0; }
  /// To all other members together.
  virtual std::uint64_t bytes_sent() const { return 0; }
  /// For a trace: from now on it is kept when exchanges take place. Before the first.
  virtual void keep_times() {}
  /// Of those that have ended, in order. From any thread.
  virtual std::vector<ExchangeTime> times() const { return {}; }
};

/// Where a member's slice begins.
inline std::size_t slice_begin(std::span<const std::size_t> ends, int member) {
  return member == 0 ? 0 : ends[static_cast<std::size_t>(member) - 1];
}

/// Reads the headers of all slices. Throws ClusterError for one of another exchange than this.
bool all_go_on(std::span<const std::byte> slices, std::span<const std::size_t> ends, std::uint32_t exchange);

}  // namespace yamata
