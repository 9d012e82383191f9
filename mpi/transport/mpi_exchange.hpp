#pragma once
// The meetings of a group over MPI.
#include <mpi.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "node/clock.hpp"
#include "node/group_exchange.hpp"

namespace yamata {

/// Every member sends its slice to every other directly. The thread that computes makes the MPI calls, while the control thread of the same
/// rank keeps away from them: handing each slice over to that would cost two changes of threads per meeting. Whoever waits spins where
/// the core is free and waits are short, else naps, so that neither the control thread nor a quota of processor time is starved.
class MpiExchange final : public GroupExchange {
 public:
  /// `comm` serves exchanges alone, `tag` this group alone among those of the same ranks. `mpi`: held by whoever is in an MPI call.
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
  std::chrono::nanoseconds spun_{0};  // length of a wait that was spun through, of late
  double contended_ = 0;              // the part of such waits in which others had the core
  std::atomic<std::int64_t> exchange_ns_{0};
  std::atomic<std::uint64_t> bytes_sent_{0};
  bool keeps_times_ = false;
  std::vector<ExchangeTime> times_;
  mutable std::mutex times_mutex_;
  std::atomic<bool> abandoned_{false};
  std::atomic<int> awaited_{-1};
};

}  // namespace yamata
