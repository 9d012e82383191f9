#pragma once
// The exchanges of a group over MPI.
#include <mpi.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "node/clock.hpp"
#include "node/group_exchange.hpp"

namespace yamata {

/// Every member sends its slice directly to every other member. The computing thread makes the MPI calls, and the control thread of the
/// same rank makes none meanwhile; passing each slice to the control thread would cost two thread switches per exchange. A waiting thread
/// spins if the core is free and waits are short, else it sleeps for short times, so that it does not starve the control thread or use up a
/// CPU quota.
class MpiExchange final : public GroupExchange {
 public:
  /// `comm` is used only for exchanges; `tag` is used only by this group among the groups of the same ranks. `mpi`: held during MPI calls.
  MpiExchange(MPI_Comm comm, std::vector<int> ranks, int own_rank, int tag, std::mutex& mpi);
  ~MpiExchange() override;

  int members() const override { return static_cast<int>(ranks_.size()); }
  int own() const override { return own_; }
  bool all_gather(std::span<std::byte> slices, std::span<const std::size_t> ends, bool go_on) override;
  void abandon() override { abandoned_ = true; }
  int awaited() const override { return awaited_; }
  double seconds() const override { return 1e-9 * static_cast<double>(exchange_ns_.load()); }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }
  void keep_times() override { keeps_times_ = true; }
  std::vector<ExchangeTime> times() const override;

 private:
  void begin(std::span<std::byte> slices, std::span<const std::size_t> ends);
  bool finished();
  bool wait();
  void rest(std::chrono::nanoseconds waited) const;
  void note_awaited();

  const MPI_Comm comm_;
  const std::vector<int> ranks_;
  const int tag_;
  int own_ = 0;
  std::mutex& mpi_;
  std::vector<MPI_Request> requests_;  // receives from the other members in their order, then sends to them
  std::uint32_t exchanges_ = 0;
  bool spins_ = true;                 // in this exchange
  std::chrono::nanoseconds spun_{0};  // recent length of a wait with spinning
  double contended_ = 0;              // the share of such waits in which other threads used the core
  std::atomic<std::int64_t> exchange_ns_{0};
  std::atomic<std::uint64_t> bytes_sent_{0};
  bool keeps_times_ = false;
  std::vector<ExchangeTime> times_;
  mutable std::mutex times_mutex_;
  std::atomic<bool> abandoned_{false};
  std::atomic<int> awaited_{-1};
};

}  // namespace yamata
