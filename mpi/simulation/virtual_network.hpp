#pragma once
// Time that passes only when something happens, and the messages and computations that it passes for.
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

struct NetworkOptions {
  Nanoseconds latency = 100'000;  ///< of every message, after its last byte has left
  double bytes_per_s = 125e6;     ///< of each rank's link, which sends one message after the other
  Nanoseconds wake_up = 50'000;   ///< from what a sleeping rank waits for until it takes note of it
  /// Of the control thread, to send or receive one message in an exchange of a group. 2.4 µs measured on an EPYC core (Open MPI's TCP over
  /// loopback, 900 bytes, 1 to 7 messages at a time); slower cores and network cards take more.
  Nanoseconds message = 5'000;
};

/// Floats of a row as the real models have them; the table's are shorter.
struct RowWidths {
  std::int64_t hidden = 4096, vocabulary = 32000;
};

/// The queue of what will happen, in order of time, then of when it was planned: the same on every run.
class VirtualNetwork {
 public:
  /// `logits`: how many a row of the table has.
  VirtualNetwork(int ranks, const NetworkOptions& options, const RowWidths& widths, std::int64_t logits);
  VirtualNetwork(const VirtualNetwork&) = delete;

  /// Does the next thing that happens; `step(rank)` lets a rank go on and says whether it did anything. False: nothing is planned.
  bool advance(const std::function<bool(std::size_t rank)>& step);
  /// A rank for which nothing happens looks around all the same after this long.
  void rest(int rank, Nanoseconds length) { wake(rank, now_ + length); }
  /// The time as the rank sees it that is being stepped.
  const Nanoseconds& now() const { return now_; }
  /// The stepped rank's control thread works this long; what it sends afterwards leaves later.
  void spend(Nanoseconds time) { now_ += time; }
  int size() const { return static_cast<int>(ranks_.size()); }
  /// What a message weighs on a real network.
  std::uint64_t real_bytes(const Message& message) const;

 private:
  friend class VirtualTransport;
  friend class VirtualUnit;
  enum class Kind : std::uint8_t { kArrival, kComputed, kWake };
  struct Event {
    Nanoseconds at;
    std::uint64_t number;
    Kind kind;
    std::int32_t rank;
    std::uint64_t what;  // the message's place; the computation's number
    bool operator>(const Event& other) const { return at != other.at ? at > other.at : number > other.number; }
  };
  struct Rank {
    std::deque<Message> arrived;
    class VirtualUnit* unit = nullptr;
    Nanoseconds link_free = 0;  // its link has sent everything before
    Nanoseconds free = 0;       // its control thread is at work until then
    Nanoseconds wakes = -1;     // planned; -1: not
    std::uint64_t bytes_sent = 0;
  };

  void plan(Nanoseconds at, Kind kind, int rank, std::uint64_t what = 0);
  void send(int from, int to, Message message);
  void wake(int rank, Nanoseconds at);
  void step_rank(int rank, const std::function<bool(std::size_t)>& step);

  /// A unit has come to a run of its group; once all have, all begin.
  void join(VirtualUnit& unit, const TableShape& shape, std::size_t rows);

  const NetworkOptions options_;
  const RowWidths widths_;
  const std::int64_t table_logits_;
  std::vector<Rank> ranks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Message> under_way_;
  std::vector<std::size_t> free_places_;
  std::map<std::vector<int>, std::map<int, std::shared_ptr<MeetingPoint>>> meetings_;  // by ranks and model
  std::map<const MeetingPoint*, std::vector<VirtualUnit*>> groups_;                      // who has come to their run
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

/// Computes for as long as the shape says, in operations of equal length, and leaves at the end of one when it is stopped. The members of a
/// group begin a run when the last of them has come to it; it takes what the slowest takes and what their meetings take; all leave it
/// together.
class VirtualUnit final : public TableUnit {
 public:
  VirtualUnit(VirtualNetwork& network, int rank, double slowness);
  void begin(const TableShape& shape, std::size_t rows, const std::atomic<bool>* stop, std::function<void(bool)> done) override;
  bool finished() const override { return !busy_; }
  bool left() const override { return left_; }
  /// In virtual time nobody waits: what is computed now ends here.
  bool wait_for(std::chrono::microseconds) override;
  std::uint64_t progress() const override { return runs_; }
  double busy_seconds() const override { return 1e-9 * static_cast<double>(busy_until(network_.now())); }
  /// Time spent computing from the beginning until `now`.
  Nanoseconds busy_until(Nanoseconds now) const;

 private:
  friend class VirtualNetwork;
  /// Its planned end has come; false where that was a plan given up since.
  bool end(std::uint64_t run, Nanoseconds now);
  void notice_stop();
  void run_until(Nanoseconds end);
  void leave(Nanoseconds at);

  VirtualNetwork& network_;
  const int rank_;
  const double slowness_;
  bool busy_ = false, left_ = false;  // left_: before its end
  bool computes_ = false;  // not before all of a group have come
  const MeetingPoint* group_ = nullptr;
  Nanoseconds length_ = 0;  // of the run on this unit alone
  Nanoseconds began_ = 0, ends_ = 0, operation_ = 0, busy_before_ = 0;
  const std::atomic<bool>* stop_ = nullptr;
  std::function<void(bool)> done_;
  std::uint64_t runs_ = 0;
};

}  // namespace yamata::simulation
