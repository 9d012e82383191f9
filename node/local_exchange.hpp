#pragma once
// A group whose members are threads of one process.
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "node/group_exchange.hpp"

namespace yamata {

/// The shared state of the members; outlives them.
class LocalGroup {
 public:
  explicit LocalGroup(int members) : members_(members) {}
  std::unique_ptr<GroupExchange> member(int own);
  /// All current and future waits end at once.
  void abandon();

 private:
  class Member;
  bool all_gather(int own, std::uint32_t exchange, std::span<std::byte> slices, std::span<const std::size_t> ends);

  const int members_;
  std::mutex mutex_;
  std::condition_variable came_;
  // Two alternating buffers: a late member may still read the slices of an exchange when others start the next one.
  std::vector<std::byte> slices_[2];
  int arrived_ = 0;
  std::uint64_t complete_ = 0;  // exchanges
  bool abandoned_ = false;
};

}  // namespace yamata
