#include "mpi/cluster/link_probe.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "node/clock.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{15};  // time for one rank before the next one is asked, too
constexpr milliseconds kBudget{50};    // for all ranks together; after that no rank is asked again
constexpr double kNear_s = 5e-3;       // round trip
constexpr int kEchoes = 5;
constexpr double kEchoing_s = 1.5e-3;                      // limit for all echoes together
constexpr std::size_t kShort = 4 << 10, kLong = 32 << 10;  // bytes of a train's messages, which follow an empty one
constexpr std::uint32_t kTrain = 3;
constexpr double kSlowLink = 16e6;  // bytes per second; up to this rate the short train is accurate enough

double median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::ranges::nth_element(numbers, middle);
  return *middle;
}

/// From the median of the intervals between answers, so that a single delayed answer does not matter.
double rate(std::size_t bytes, const std::vector<double>& took_s) {
  constexpr double kMin_s = 1e-6;  // resolution of the clock
  return static_cast<double>(bytes) / std::max(median(took_s), kMin_s);
}

}  // namespace

LinkProbe::LinkProbe(Transport& transport)
    : transport_(transport), peers_(static_cast<std::size_t>(transport.size())), began_(Clock::now()) {}

void LinkProbe::send(int to, std::size_t bytes) {
  transport_.send(to, Tag::kProbe, wire::encode(wire::Probe{peers_[static_cast<std::size_t>(to)].sent++, std::vector<std::byte>(bytes)}));
}

void LinkProbe::ask(int rank, Step step, Time now) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.step = step;
  peer.asked = now;
  peer.between_s.clear();
  send(rank, 0);
  for (std::uint32_t i = 0; step != Step::kEcho && i < kTrain; ++i) send(rank, step == Step::kShort ? kShort : kLong);
}

bool LinkProbe::advance(Time now) {
  const bool last_done = asked_ == 0 || peers_[static_cast<std::size_t>(asked_)].step == Step::kDone;
  if (asked_ + 1 == transport_.size() || (!last_done && now - since_ < kPatience)) return false;
  since_ = now;
  ask(++asked_, Step::kShort, now);
  return true;
}

void LinkProbe::on_answer(int from, const wire::Probe& answer, Time now) {
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  if (peer.step == Step::kNothing || peer.step == Step::kDone || answer.number != peer.answers || answer.number >= peer.sent)
    throw ClusterError("a message was answered that was not sent; do all ranks run the same yamata?");
  const std::uint32_t asked_now = peer.step == Step::kEcho ? 1 : 1 + kTrain;
  const bool first = peer.answers++ + asked_now == peer.sent;
  if (first) {
    const double took_s = Clock::seconds(now - peer.asked);
    peer.shortest_s = std::min(peer.shortest_s, took_s);
    if (peer.step == Step::kShort) peer.first_s = took_s;
  } else {
    peer.between_s.push_back(Clock::seconds(now - peer.answered));
  }
  peer.answered = now;
  if (peer.answers == peer.sent) next_step(from, now);
}

/// All messages to this rank have been answered.
void LinkProbe::next_step(int rank, Time now) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.step != Step::kEcho) peer.bytes_per_s = rate(peer.step == Step::kShort ? kShort : kLong, peer.between_s);
  const bool near = peer.first_s < kNear_s && now - began_ < kBudget;
  if (peer.step == Step::kLong || !near) return finish(rank);
  if (peer.step == Step::kEcho) ++peer.echoes;
  if (peer.echoes == 0 || (peer.echoes < kEchoes && peer.echoes * peer.shortest_s < kEchoing_s)) return ask(rank, Step::kEcho, now);
  peer.bytes_per_s < kSlowLink ? finish(rank) : ask(rank, Step::kLong, now);
}

void LinkProbe::finish(int rank) {
  peers_[static_cast<std::size_t>(rank)].step = Step::kDone;
  ++answered_;
}

/// Near ranks for which there was no time get the medians of those that were measured.
std::vector<Link> LinkProbe::links() const {
  std::vector<double> latencies, wake_ups, rates;
  for (const Peer& peer : peers_) {
    if (peer.echoes == 0) continue;
    latencies.push_back(peer.shortest_s / 2);
    wake_ups.push_back(peer.first_s - peer.shortest_s);
    rates.push_back(peer.bytes_per_s);
  }
  std::vector<Link> links{{}};
  for (std::size_t r = 1; r < peers_.size(); ++r) {
    const Peer& peer = peers_[r];
    Link link{peer.shortest_s / 2, peer.first_s - peer.shortest_s, peer.bytes_per_s};
    if (peer.echoes == 0 && peer.first_s < kNear_s && !rates.empty())
      link = {median(latencies), median(wake_ups), std::min(link.bytes_per_s, median(rates))};
    links.push_back(link);
  }
  return links;
}

}  // namespace yamata
