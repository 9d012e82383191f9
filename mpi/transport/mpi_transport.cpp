#include "mpi/transport/mpi_transport.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <limits>
#include <random>
#include <tuple>
#include <utility>

#include "mpi/transport/mpi_exchange.hpp"
#include "mpi/transport/mpi_session.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

/// Added to the tag of every part of a message but the last.
constexpr int kMoreFollows = 1 << 8;

/// A large message is sent in up to 32 parts. On a slow link, where it takes long, each of them shows that its sender lives.
std::size_t part_size(std::size_t message) {
  constexpr std::size_t kWhole = 16 << 10, kMinPart = 8 << 10, kMaxParts = 32;
  return message <= kWhole ? message : std::max(kMinPart, (message + kMaxParts - 1) / kMaxParts);
}

}  // namespace

MpiTransport::MpiTransport(Parts parts) : parts_(parts) {
  YAMATA_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
  YAMATA_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  YAMATA_MPI(MPI_Comm_dup(comm_, &exchange_comm_));
  YAMATA_MPI(MPI_Comm_rank(comm_, &rank_));
  YAMATA_MPI(MPI_Comm_size(comm_, &size_));
  forgotten_.assign(static_cast<std::size_t>(size_), false);
  arriving_.resize(static_cast<std::size_t>(size_));
  took_.assign(static_cast<std::size_t>(size_), 0);
  to_notify_.assign(static_cast<std::size_t>(size_), 0);
  char own[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  YAMATA_MPI(MPI_Get_processor_name(own, &length));
  own[std::tuple_size_v<HostName> - 1] = '\0';
  hosts_.resize(static_cast<std::size_t>(size_));
  YAMATA_MPI(MPI_Allgather(own, sizeof(HostName), MPI_CHAR, hosts_.data(), sizeof(HostName), MPI_CHAR, comm_));
  std::uint64_t job = 0;
  if (rank_ == 0) job = static_cast<std::uint64_t>(std::random_device{}()) << 32 | static_cast<std::uint32_t>(getpid());
  YAMATA_MPI(MPI_Bcast(&job, 1, MPI_UINT64_T, 0, comm_));
  bell_ = std::make_unique<Doorbell>(job, rank_, size_);
  waker_ = SocketWaker(bell_.get());
  const Doorbell::Page page = bell_->page();
  std::vector<Doorbell::Page> pages(static_cast<std::size_t>(size_));
  YAMATA_MPI(MPI_Allgather(&page, sizeof(page), MPI_BYTE, pages.data(), sizeof(page), MPI_BYTE, comm_));
  for (int r = 0; r < size_; ++r) {
    if (r != rank_ && on_this_machine(r)) bell_->map(r, pages[static_cast<std::size_t>(r)]);
  }
  connect_all();  // and all pages are mapped
}

/// MPI connects two ranks when one first sends to the other. While a link is down for a moment, that would end the job, but an existing
/// connection survives.
void MpiTransport::connect_all() {
  std::vector<MPI_Request> requests;
  std::vector<char> from(static_cast<std::size_t>(size_));
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    YAMATA_MPI(MPI_Irecv(&from[static_cast<std::size_t>(r)], 1, MPI_CHAR, r, 0, comm_, &requests.emplace_back()));
    YAMATA_MPI(MPI_Isend("", 1, MPI_CHAR, r, 0, comm_, &requests.emplace_back()));
  }
  YAMATA_MPI(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
}

MpiTransport::~MpiTransport() {
  const bool failing = std::uncaught_exceptions() > 0;
  for (PendingSend& send : pending_) {
    if (failing) MPI_Cancel(&send.request);
    MPI_Wait(&send.request, MPI_STATUS_IGNORE);
  }
  if (!undeliverable_.empty()) return;
  MPI_Comm_free(&exchange_comm_);
  MPI_Comm_free(&comm_);
}

void MpiTransport::send(int to, Tag tag, std::vector<std::byte> bytes) {
  if (to == rank_) {
    to_self_.push_back({rank_, tag, std::move(bytes)});
    return;
  }
  if (forgotten(to)) return;
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw ClusterError(fmt::format("a message of {} bytes is too long for MPI; lower -b", bytes.size()));
  }
  bytes_sent_ += bytes.size();
  const auto before = std::find_if(pending_.begin(), pending_.end(), [&](const PendingSend& other) { return other.to == to; });
  const auto since = before == pending_.end() ? std::chrono::steady_clock::now() : before->since;
  const auto message = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::size_t part = parts_ == Parts::kToOtherMachines && on_this_machine(to) ? message->size() : part_size(message->size());
  const std::lock_guard lock(mpi_);
  std::size_t at = 0;
  for (bool last = false; !last; at += part) {
    last = message->size() - at <= part;
    const std::size_t length = last ? message->size() - at : part;
    const int its_tag = static_cast<int>(tag) | (last ? 0 : kMoreFollows);
    PendingSend& send = pending_.emplace_back(PendingSend{to, message, since});
    YAMATA_MPI(MPI_Isend(message->data() + at, static_cast<int>(length), MPI_BYTE, to, its_tag, comm_, &send.request));
  }
  to_notify_[static_cast<std::size_t>(to)] = 1;
}

/// All parts of a message arrive before anything else from its sender.
Message MpiTransport::assemble(Message part, bool last) {
  std::vector<std::byte>& arriving = arriving_[static_cast<std::size_t>(part.from)];
  if (arriving.empty() && last) return part;
  arriving.insert(arriving.end(), part.bytes.begin(), part.bytes.end());
  if (!last) return {part.from, Tag::kPart, {}};
  return {part.from, part.tag, std::exchange(arriving, {})};
}

/// Whether pending sends must be advanced often. If a send stays pending for long, its rank may be dead, which is detected later, or its
/// link is full. Then occasional checks are enough; short naps would cost processor time that this rank's computation needs.
bool MpiTransport::sends_need_care() const {
  constexpr auto kStays = std::chrono::milliseconds(50);
  const auto now = std::chrono::steady_clock::now();
  return std::any_of(pending_.begin(), pending_.end(), [&](const PendingSend& send) { return now - send.since < kStays; });
}

/// Tests all sends at once: an unsuccessful test may yield the core, and there may be hundreds of sends.
void MpiTransport::retire_sends() {
  if (pending_.empty()) return;
  requests_.clear();
  for (const PendingSend& send : pending_) requests_.push_back(send.request);
  done_.resize(requests_.size());
  int count = 0;
  YAMATA_MPI(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(), MPI_STATUSES_IGNORE));
  if (count == 0) return;
  auto request = requests_.begin();  // null if the send is complete
  for (auto send = pending_.begin(); send != pending_.end();) {
    const bool left = *request++ == MPI_REQUEST_NULL;
    if (left) took_[static_cast<std::size_t>(send->to)] = 1;
    send = left ? pending_.erase(send) : std::next(send);
  }
  const auto now = std::chrono::steady_clock::now();
  for (PendingSend& send : pending_) {
    if (took_[static_cast<std::size_t>(send.to)]) send.since = now;
  }
  std::fill(took_.begin(), took_.end(), 0);
}

std::optional<Message> MpiTransport::receive() {
  const std::lock_guard lock(mpi_);
  retire_sends();
  if (!to_self_.empty()) {
    Message message = std::move(to_self_.front());
    to_self_.pop_front();
    return message;
  }
  int there = 0;
  MPI_Message handle = MPI_MESSAGE_NULL;
  MPI_Status status;
  YAMATA_MPI(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &there, &handle, &status));
  waker_.looked(there != 0);
  if (!there) return std::nullopt;
  int count = 0;
  YAMATA_MPI(MPI_Get_count(&status, MPI_BYTE, &count));
  const auto tag = static_cast<Tag>(status.MPI_TAG & ~kMoreFollows);
  Message message{status.MPI_SOURCE, tag, std::vector<std::byte>(static_cast<std::size_t>(count))};
  YAMATA_MPI(MPI_Mrecv(message.bytes.data(), count, MPI_BYTE, &handle, MPI_STATUS_IGNORE));
  return assemble(std::move(message), (status.MPI_TAG & kMoreFollows) == 0);
}

/// A probe first looks at received messages and only then reads sockets, and it does not even read them every time. So this looks once more
/// after receive() found nothing, or several times if a message is expected.
bool MpiTransport::something_there() {
  const std::lock_guard lock(mpi_);
  const int looks = waker_.expecting() ? 8 : 1;
  for (int look = 0; look < looks; ++look) {
    int there = 0;
    YAMATA_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &there, MPI_STATUS_IGNORE));
    if (there) return true;
  }
  return false;
}

std::unique_ptr<GroupExchange> MpiTransport::join_group(std::span<const int> ranks, int model) {
  return std::make_unique<MpiExchange>(exchange_comm_, std::vector<int>(ranks.begin(), ranks.end()), rank_, model, mpi_);
}

/// A notified rank may take this rank's core: so notify after all other work is done.
void MpiTransport::notify() {
  for (int to = 0; to < size_; ++to) {
    if (std::exchange(to_notify_[static_cast<std::size_t>(to)], 0)) bell_->notify(to);
  }
}

void MpiTransport::nap(std::chrono::microseconds length) {
  notify();
  if (!something_there()) waker_.nap(length);
}

void MpiTransport::stand_back(std::chrono::microseconds limit) {
  notify();
  waker_.stand_back(limit);
}

void MpiTransport::sleep(std::chrono::microseconds limit) {
  constexpr std::chrono::microseconds kBetweenLooks{5000};  // between checks of a pending send: no event tells when its link is free
  if (!pending_.empty()) limit = std::min(limit, kBetweenLooks);
  notify();
  bell_->asleep(true);
  if (!something_there()) waker_.sleep(limit);
  bell_->asleep(false);
}

void MpiTransport::forget(int rank) {
  forgotten_[static_cast<std::size_t>(rank)] = true;
  for (auto send = pending_.begin(); send != pending_.end();) {
    const auto next = std::next(send);
    if (send->to == rank) undeliverable_.splice(undeliverable_.end(), pending_, send);
    send = next;
  }
}

void MpiTransport::abort(int code) {
  if (!end_job(code)) MPI_Abort(comm_, code);
  std::_Exit(code);
}

}  // namespace yamata
