#include "node/lost_pages.hpp"

#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

namespace yamata {
namespace {

/// Read by a signal handler: so it needs no locks and never moves.
struct Slot {
  std::atomic<std::uintptr_t> begin{0};  // 0: free, kTaken: being filled in
  std::size_t bytes = 0;
  const char* path = nullptr;
  std::atomic<bool> lost{false};

  bool holds(std::uintptr_t address) const {
    const std::uintptr_t from = begin.load(std::memory_order_acquire);
    return from > kTaken && address >= from && address - from < bytes;
  }
  static constexpr std::uintptr_t kTaken = 1;
};

constexpr std::size_t kSlots = 4096;
std::array<Slot, kSlots> slots;
std::atomic<int> lost_mappings{0};

/// Async-signal-safe. Maps zeros in place of the file; threads read these until require_pages() is called.
bool replace_by_zeros(Slot& slot) {
  if (!slot.lost.exchange(true)) ++lost_mappings;
  void* const begin = reinterpret_cast<void*>(slot.begin.load());
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  return mmap(begin, slot.bytes, PROT_READ, kFlags, -1, 0) == begin;
}

void on_bus_error(int, siginfo_t* info, void*) {
  const int error = errno;
  const bool sent = info->si_code <= 0;  // sent by a process
  for (Slot& slot : slots) {
    if (sent || !slot.holds(reinterpret_cast<std::uintptr_t>(info->si_addr)) || !replace_by_zeros(slot)) continue;
    errno = error;
    return;
  }
  signal(SIGBUS, SIG_DFL);
  raise(SIGBUS);
}

}  // namespace

WatchedMapping::WatchedMapping(std::span<const std::byte> bytes, const std::string& path) : path_(path) {
  for (slot_ = 0; slot_ < kSlots; ++slot_) {
    Slot& slot = slots[slot_];
    std::uintptr_t free = 0;
    if (!slot.begin.compare_exchange_strong(free, Slot::kTaken)) continue;
    slot.bytes = bytes.size();
    slot.path = path_.c_str();
    slot.begin.store(reinterpret_cast<std::uintptr_t>(bytes.data()), std::memory_order_release);
    return;
  }
}

WatchedMapping::~WatchedMapping() {
  if (slot_ == kSlots) return;
  Slot& slot = slots[slot_];
  if (slot.lost.exchange(false)) --lost_mappings;
  slot.begin.store(0, std::memory_order_release);
}

void survive_lost_pages() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void require_pages() {
  if (lost_mappings.load() == 0) return;
  for (const Slot& slot : slots) {
    if (!slot.lost) continue;
    throw LostPages(std::string(slot.path) +
                    " was truncated or became unreadable while it was in use; copy it again, and do not change it while yamata runs");
  }
}

void require_pages(std::span<const std::byte> bytes) {
  constexpr std::size_t kPage = 4096;  // the real page size may be larger
  const auto* const memory = reinterpret_cast<const volatile unsigned char*>(bytes.data());
  for (std::size_t at = 0; at < bytes.size(); at += kPage) static_cast<void>(memory[at]);
  if (!bytes.empty()) static_cast<void>(memory[bytes.size() - 1]);
  require_pages();
}

}  // namespace yamata
