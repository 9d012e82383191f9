#pragma once
// Discrete-event simulation of a network and of computing units, in virtual time.
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <vector>

#include "mpi/transport/transport.hpp"
#include "src/simulation/table_model.hpp"

namespace yamata::simulation {

using Nanoseconds = std::int64_t;
inline constexpr Nanoseconds kMillisecond = 1'000'000;

struct NetworkOptions {
  Nanoseconds latency = 100'000;  ///< of every message, after its last byte was sent
  double bytes_per_s = 125e6;     ///< of each rank's link, which sends one message after another
  Nanoseconds wake_up = 50'000;   ///< from an event until the sleeping rank that waits for it continues
  /// Time of the control thread to send or receive one message in an exchange of a group. 2.4 µs were measured on an EPYC core (Open MPI's
  /// TCP over loopback, 900 bytes, 1 to 7 messages at a time); slower cores and network cards need more.
  Nanoseconds message = 5'000;
};

/// Floats per row in the real models; the simulated table's rows are shorter.
struct RowWidths {
  std::int64_t hidden = 4096, vocabulary = 32000;
  std::vector<std::int64_t> activations{};  ///< that each rank of the target sends to the next stage; empty: as many as `hidden`
};

/// The event queue, in order of time, then of planning: every run is the same.
class VirtualNetwork {
 public:
  /// `logits`: how many a row of the table has.
  VirtualNetwork(int ranks, const NetworkOptions& options, const RowWidths& widths, std::int64_t logits);
  VirtualNetwork(const VirtualNetwork&) = delete;

  /// Processes the next event; `step(rank)` advances a rank and returns whether it did anything. False: there are no events.
  bool advance(const std::function<bool(std::size_t rank)>& step);
  /// Wakes this rank after `length`, even if no event does.
  void rest(int rank, Nanoseconds length) { wake(rank, now_ + length); }
  /// Something from outside will wake this rank at that time.
  void call(int rank, Nanoseconds at) { plan(at, Kind::kCall, rank); }
  /// The time as seen by the rank that is being stepped.
  const Nanoseconds& now() const { return now_; }
  /// The stepped rank's control thread works for `time`; its later messages leave later.
  void spend(Nanoseconds time) { now_ += time; }
  int size() const { return static_cast<int>(ranks_.size()); }
  /// The size of a message on a real network.
  std::uint64_t real_bytes(int from, const Message& message) const;

 private:
  friend class VirtualTransport;
  friend class VirtualUnit;
  enum class Kind : std::uint8_t { kArrival, kComputed, kWake, kCall };
  struct Event {
    Nanoseconds at;
    std::uint64_t number;
    Kind kind;
    std::int32_t rank;
    std::uint64_t what;  // index of the message, or number of the computation
    bool operator>(const Event& other) const { return at != other.at ? at > other.at : number > other.number; }
  };
  struct Rank {
    std::deque<Message> arrived;
    class VirtualUnit* unit = nullptr;
    Nanoseconds link_free = 0;  // when its link has sent everything before
    Nanoseconds free = 0;       // when its control thread is free
    Nanoseconds wakes = -1;     // time of the planned wake-up; -1: none
    std::uint64_t bytes_sent = 0;
  };

  void plan(Nanoseconds at, Kind kind, int rank, std::uint64_t what = 0);
  void send(int from, int to, Message message);
  void wake(int rank, Nanoseconds at);
  void step_rank(int rank, const std::function<bool(std::size_t)>& step);

  /// A unit has reached a run of its group; when all have, all begin.
  void join(VirtualUnit& unit, const TableShape& shape, std::size_t rows);

  const NetworkOptions options_;
  const RowWidths widths_;
  const std::int64_t table_logits_;
  std::vector<Rank> ranks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Message> under_way_;
  std::vector<std::size_t> free_places_;
  std::map<std::vector<int>, std::map<int, std::shared_ptr<ExchangePoint>>> exchanges_;  // by ranks and model
  std::map<const ExchangePoint*, std::vector<VirtualUnit*>> groups_;                     // units that have reached their run
  Nanoseconds now_ = 0;
  std::uint64_t planned_ = 0;
};

class VirtualTransport final : public Transport {
 public:
  VirtualTransport(VirtualNetwork& network, int rank) : network_(network), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return network_.size(); }
  void send(int to, Tag tag, std::vector<std::byte> bytes) override { network_.send(rank_, to, {rank_, tag, std::move(bytes)}); }
  std::optional<Message> receive() override;
  std::size_t pending_sends() const override { return 0; }
  std::uint64_t bytes_sent() const override { return network_.ranks_[static_cast<std::size_t>(rank_)].bytes_sent; }
  void forget(int) override {}
  bool forgotten(int) const override { return false; }
  std::unique_ptr<GroupExchange> join_group(std::span<const int> ranks, int model) override;
  [[noreturn]] void abort(int code) override;

 private:
  VirtualNetwork& network_;
  int rank_;
};

/// Computes for as long as the shape says, in operations of equal length; if it is stopped, it leaves at the end of an operation. The
/// members of a group begin a run when the last of them has reached it. The run takes as long as the slowest member and their exchanges,
/// and all members leave it together.
class VirtualUnit final : public TableUnit {
 public:
  VirtualUnit(VirtualNetwork& network, int rank, double slowness);
  void begin(const TableShape& shape, std::size_t rows, const std::atomic<bool>* stop, std::function<void(bool)> done) override;
  bool finished() const override { return !busy_; }
  bool was_stopped() const override { return was_stopped_; }
  /// In virtual time there is no waiting: if a computation is running, its end is now.
  bool wait_for(std::chrono::microseconds) override;
  std::uint64_t progress() const override { return runs_; }
  double busy_seconds() const override { return 1e-9 * static_cast<double>(busy_until(network_.now())); }
  /// Time spent computing up to `now`.
  Nanoseconds busy_until(Nanoseconds now) const;

 private:
  friend class VirtualNetwork;
  /// The planned end of a run has come; false if that plan was given up.
  bool end(std::uint64_t run, Nanoseconds now);
  void notice_stop();
  void run_until(Nanoseconds end);
  void leave(Nanoseconds at);

  VirtualNetwork& network_;
  const int rank_;
  const double slowness_;
  bool busy_ = false, was_stopped_ = false;  // was_stopped_: before the run's end
  bool computes_ = false;                    // false until all members of the group have come
  const ExchangePoint* group_ = nullptr;
  Nanoseconds length_ = 0;  // of the run on this unit alone
  Nanoseconds began_ = 0, ends_ = 0, operation_ = 0, busy_before_ = 0;
  const std::atomic<bool>* stop_ = nullptr;
  std::function<void(bool)> done_;
  std::uint64_t runs_ = 0;
};

}  // namespace yamata::simulation
