#include "node/local_exchange.hpp"

#include <cstring>

#include "node/error.hpp"

namespace yamata {

class LocalGroup::Member final : public GroupExchange {
 public:
  Member(LocalGroup& group, int own) : group_(group), own_(own) {}
  int members() const override { return group_.members_; }
  int own() const override { return own_; }
  bool all_gather(std::span<std::byte> slices, std::span<const std::size_t> ends, bool go_on) override {
    const SliceHeader header{++exchanges_, go_on ? 0u : 1u};
    std::memcpy(slices.data() + slice_begin(ends, own_), &header, sizeof header);
    return group_.all_gather(own_, exchanges_, slices, ends) && all_go_on(slices, ends, exchanges_);
  }
  void abandon() override { group_.abandon(); }

 private:
  LocalGroup& group_;
  const int own_;
  std::uint32_t exchanges_ = 0;
};

std::unique_ptr<GroupExchange> LocalGroup::member(int own) { return std::make_unique<Member>(*this, own); }

void LocalGroup::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  came_.notify_all();
}

bool LocalGroup::all_gather(int own, std::uint32_t exchange, std::span<std::byte> slices, std::span<const std::size_t> ends) {
  const auto copy = [&](std::span<std::byte> to, std::span<const std::byte> from, int m) {
    const std::size_t begin = slice_begin(ends, m);
    std::memcpy(to.data() + begin, from.data() + begin, ends[static_cast<std::size_t>(m)] - begin);
  };
  std::unique_lock lock(mutex_);
  std::vector<std::byte>& all = slices_[exchange % 2];
  if (all.size() < slices.size()) all.resize(slices.size());
  copy(all, slices, own);
  if (++arrived_ == members_) {
    arrived_ = 0;
    ++complete_;
    came_.notify_all();
  }
  came_.wait(lock, [&] { return abandoned_ || complete_ >= exchange; });
  if (abandoned_) return false;
  for (int m = 0; m < members_; ++m) {
    if (m != own) copy(slices, all, m);
  }
  return true;
}

bool all_go_on(std::span<const std::byte> slices, std::span<const std::size_t> ends, std::uint32_t exchange) {
  bool go_on = true;
  for (int m = 0; m < static_cast<int>(ends.size()); ++m) {
    SliceHeader header;
    std::memcpy(&header, slices.data() + slice_begin(ends, m), sizeof header);
    if (header.exchange != exchange) throw ClusterError("a slice of another exchange has come from a member of the group");
    go_on &= header.gives_up == 0;
  }
  return go_on;
}

}  // namespace yamata
