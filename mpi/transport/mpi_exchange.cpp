#include "mpi/transport/mpi_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <thread>

#include "mpi/transport/mpi_session.hpp"

namespace yamata {
namespace {

using std::chrono::nanoseconds;
using WallClock = std::chrono::steady_clock;

// A wait begins with spinning for kSpin if the core is free: on a virtual machine even the shortest sleep takes some hundred microseconds.
// If other threads need the core (then a share of the waits loses more than kTaken to them), or if most waits are long, the wait naps
// instead. Every kLookAgain-th exchange spins nevertheless, to measure again.
constexpr nanoseconds kSpin{2'000'000}, kSpinsPay{1'500'000}, kShortestNap{20'000}, kLongestNap{1'000'000}, kTaken{200'000};
constexpr double kContended = 0.3;
constexpr std::uint32_t kLookAgain = 16;
constexpr nanoseconds kLong{200'000'000};  // then the awaited member is reported

}  // namespace

MpiExchange::MpiExchange(MPI_Comm comm, std::vector<int> ranks, int own_rank, int tag, std::mutex& mpi)
    : comm_(comm), ranks_(std::move(ranks)), tag_(tag), mpi_(mpi) {
  own_ = static_cast<int>(std::find(ranks_.begin(), ranks_.end(), own_rank) - ranks_.begin());
}

/// Requests that were abandoned are left to MPI, which may still write to memory that no longer exists: the job is ending.
MpiExchange::~MpiExchange() {
  const std::lock_guard lock(mpi_);
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

void MpiExchange::begin(std::span<std::byte> slices, std::span<const std::size_t> ends) {
  requests_.clear();
  const std::lock_guard lock(mpi_);
  const auto slice = [&](int m) { return slices.subspan(slice_begin(ends, m), ends[static_cast<std::size_t>(m)] - slice_begin(ends, m)); };
  for (int m = 0; m < members(); ++m) {
    if (m == own_) continue;
    const auto into = slice(m);
    YAMATA_MPI(MPI_Irecv(into.data(), static_cast<int>(into.size()), MPI_BYTE, ranks_[static_cast<std::size_t>(m)], tag_, comm_,
                         &requests_.emplace_back(MPI_REQUEST_NULL)));
  }
  // Each member sends first to the next one, so that not all send to the same member at once.
  const auto from = slice(own_);
  for (int further = 1; further < members(); ++further) {
    const int to = ranks_[static_cast<std::size_t>((own_ + further) % members())];
    YAMATA_MPI(MPI_Isend(from.data(), static_cast<int>(from.size()), MPI_BYTE, to, tag_, comm_, &requests_.emplace_back(MPI_REQUEST_NULL)));
  }
}

bool MpiExchange::finished() {
  const std::lock_guard lock(mpi_);
  int done = 0;
  YAMATA_MPI(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE));
  return done != 0;
}

/// Records which member's slice is missing.
void MpiExchange::note_awaited() {
  const std::lock_guard lock(mpi_);
  for (int i = 0; i + 1 < members(); ++i) {
    int there = 0;
    YAMATA_MPI(MPI_Request_get_status(requests_[static_cast<std::size_t>(i)], &there, MPI_STATUS_IGNORE));
    if (!there) awaited_ = i < own_ ? i : i + 1;
  }
}

void MpiExchange::rest(nanoseconds waited) const {
  if (spins_ && waited < kSpin) {
    std::this_thread::yield();  // the control thread may be on the same core
    return;
  }
  const timespec nap{0, std::clamp(waited / 8, kShortestNap, kLongestNap).count()};
  nanosleep(&nap, nullptr);
}

bool MpiExchange::wait() {
  const auto began = WallClock::now();
  nanoseconds waited{0}, taken{0};
  spins_ = (spun_ < kSpinsPay && contended_ < kContended) || exchanges_ % kLookAgain == 0;
  while (!finished()) {
    if (abandoned_) return false;
    const nanoseconds now = WallClock::now() - began;
    if (now - waited > kTaken) taken += now - waited;
    waited = now;
    if (waited > kLong) note_awaited();
    rest(waited);
  }
  awaited_ = -1;
  if (spins_ && waited.count() > 0) {
    spun_ += (std::min(waited, 2 * kSpin) - spun_) / 32;
    contended_ += (static_cast<double>(taken.count()) / static_cast<double>(waited.count()) - contended_) / 32;
  }
  requests_.clear();
  return true;
}

std::vector<ExchangeTime> MpiExchange::times() const {
  const std::lock_guard lock(times_mutex_);
  return times_;
}

bool MpiExchange::all_gather(std::span<std::byte> slices, std::span<const std::size_t> ends, bool go_on) {
  if (abandoned_) return false;
  const SliceHeader header{++exchanges_, go_on ? 0u : 1u};
  std::memcpy(slices.data() + slice_begin(ends, own_), &header, sizeof header);
  const auto began = WallClock::now();
  begin(slices, ends);
  const bool came = wait();
  const auto ended = WallClock::now();
  exchange_ns_ += std::chrono::duration_cast<nanoseconds>(ended - began).count();
  if (keeps_times_) {
    const std::lock_guard lock(times_mutex_);
    times_.push_back({began, ended});
  }
  bytes_sent_ += (ends[static_cast<std::size_t>(own_)] - slice_begin(ends, own_)) * (ranks_.size() - 1);
  return came && all_go_on(slices, ends, exchanges_);
}

}  // namespace yamata
