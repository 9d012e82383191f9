#pragma once
// Messages over MPI.
#include <mpi.h>

#include <array>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mpi/transport/doorbell.hpp"
#include "mpi/transport/socket_waker.hpp"
#include "mpi/transport/transport.hpp"

namespace yamata {

/// Buffered sends and probed receives on its own communicator. All calls except wake are made by one thread; exchanges use another thread.
class MpiTransport final : public Transport {
 public:
  /// Which messages are sent in parts if they are large. On one machine that would only cost time.
  enum class Parts { kToOtherMachines, kToAll };
  /// Collective over MPI_COMM_WORLD, during an MpiSession.
  explicit MpiTransport(Parts parts = Parts::kToOtherMachines);
  /// Waits for pending sends; during an exception it cancels them instead.
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host(int rank) const override { return hosts_[static_cast<std::size_t>(rank)].data(); }
  void send(int to, Tag tag, std::vector<std::byte> bytes) override;
  std::optional<Message> receive() override;
  std::size_t pending_sends() const override { return pending_.size(); }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }
  void forget(int rank) override;
  bool forgotten(int rank) const override { return forgotten_[static_cast<std::size_t>(rank)]; }
  bool has_ended(int rank) const override { return bell_->has_ended(rank); }
  std::unique_ptr<GroupExchange> join_group(std::span<const int> ranks, int model) override;
  void nap(std::chrono::microseconds length) override;
  void sleep(std::chrono::microseconds limit) override;
  void stand_back(std::chrono::microseconds limit) override;
  void wake() override { bell_->notify_own(); }
  bool wakes() const override { return bell_->fd() >= 0 && waker_.trusted() && !sends_need_care(); }
  void abort(int code) override;

 private:
  struct PendingSend {  // a list node: MPI reads the buffer where it is
    int to = 0;
    std::shared_ptr<const std::vector<std::byte>> message;  // of which this is a part, or all
    std::chrono::steady_clock::time_point since;            // when it was sent, or when the previous send to that rank completed
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void connect_all();
  bool on_this_machine(int rank) const { return hosts_[static_cast<std::size_t>(rank)] == hosts_[static_cast<std::size_t>(rank_)]; }
  Message assemble(Message part, bool last);
  bool sends_need_care() const;
  void retire_sends();
  void notify();
  bool something_there();

  MPI_Comm comm_ = MPI_COMM_NULL, exchange_comm_ = MPI_COMM_NULL;
  std::mutex mpi_;  // held during every MPI call, because computing threads also make some
  int rank_ = 0, size_ = 1;
  using HostName = std::array<char, 64>;  // longer names are truncated
  std::vector<HostName> hosts_;
  std::list<PendingSend> pending_, undeliverable_;  // undeliverable_: to lost ranks; MPI may still read their buffers
  std::vector<MPI_Request> requests_;               // of pending_, while they are tested
  std::vector<int> done_;
  std::vector<bool> forgotten_;
  const Parts parts_;
  std::vector<std::vector<std::byte>> arriving_;  // per rank: the parts of its message that have arrived, but for the last
  std::vector<char> took_;                        // per rank: a send to it has just completed
  std::vector<char> to_notify_;                   // per rank: something was sent since the last rest
  std::deque<Message> to_self_;
  std::uint64_t bytes_sent_ = 0;
  std::unique_ptr<Doorbell> bell_;
  SocketWaker waker_;
};

}  // namespace yamata
