#include "node/cuda/device/launcher.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "node/spin_wait.hpp"

namespace yamata::cuda {

Launcher::~Launcher() {
  try {
    device_.synchronize();
  } catch (...) {  // the first error was already thrown
  }
}

void Launcher::put(const simt::Launch& launch) {
  if (!was_stopped_) collected_.push_back(launch);
}

void Launcher::named(const char* what) {
  for (std::size_t i = std::min(named_, collected_.size()); i < collected_.size(); ++i) collected_[i].what = what;
  named_ = collected_.size();
}

void Launcher::begin(const ListShape& list, std::size_t barriers, bool alone) {
  drop();
  named_ = barriers_ = 0;
  was_stopped_ = false;
  graphs_.begin(list);
  const DeviceProperties& can = device_.properties();
  waits_ = options_.stream_waits && barriers > 0 && can.waits && (alone || !can.waits_alone);
  if (!waits_) return;
  const std::size_t bytes = barriers * sizeof(Flags);
  if (!flags_ || flags_->size() < bytes) {
    flags_.reset();
    flags_ = device_.allocate(bytes, DeviceMemory::kMapped);
  }
  std::memset(flags_->data(), 0, bytes);
}

bool Launcher::barrier(std::function<bool()> wait, bool exchanges) {
  if (was_stopped_) return false;
  if (!waits_) {
    device_.wait(mark());
    return wait();
  }
  auto* flags = reinterpret_cast<Flags*>(flags_->data()) + barriers_++;
  device_.kernels().raise_flag({&flags->came}, this);
  device_.kernels().await_flag({&flags->goes_on}, this);
  named("a barrier");
  ahead_.push_back({flags, std::move(wait), exchanges});
  return true;
}

std::size_t Launcher::exchanges_ahead() const { return static_cast<std::size_t>(std::ranges::count_if(ahead_, &Ahead::exchanges)); }

void Launcher::flush() {
  if (!collected_.empty()) give();
  wait_at_barriers();
}

void Launcher::give() {
  // After a failed launch, nobody else would set the remaining flags.
  struct Raised {
    Launcher& launcher;
    bool given = false;
    ~Raised() {
      if (given) return;
      for (const Ahead& ahead : launcher.ahead_) std::atomic_ref(ahead.flags->goes_on).store(1, std::memory_order_release);
      launcher.drop();
    }
  } raised{*this};
  if (!options_.graphs || !graphs_.launch(collected_)) {
    for (const simt::Launch& launch : collected_) {
      device_.stream()->put(launch);
      device_.check(launch.what);
    }
  }
  raised.given = true;
  collected_.clear();
  named_ = 0;
}

/// Sets the flags of all remaining barriers, whatever happens, so that the stream reaches its end; then its results are not used.
void Launcher::wait_at_barriers() {
  struct Raised {
    std::vector<Ahead>& all;
    std::size_t next = 0;
    void raise() { std::atomic_ref(all[next++].flags->goes_on).store(1, std::memory_order_release); }
    ~Raised() {
      while (next < all.size()) raise();
      all.clear();
    }
  } raised{ahead_};
  while (raised.next < ahead_.size() && !was_stopped_) {
    const Ahead& ahead = ahead_[raised.next];
    await(&ahead.flags->came);
    was_stopped_ = !ahead.wait();
    raised.raise();
  }
}

/// Also checks from time to time whether the device has failed, because then it sets no flag.
void Launcher::await(const std::uint32_t* flag) {
  constexpr unsigned kLooks = 1024;
  const std::atomic_ref<std::uint32_t> came(*const_cast<std::uint32_t*>(flag));
  for (unsigned looks = 1; came.load(std::memory_order_acquire) == 0; ++looks) {
    relax_core();
    if (looks % kLooks != 0) continue;
    device_.require_well();
    std::this_thread::yield();
  }
}

std::uint64_t Launcher::mark() {
  flush();
  return device_.mark();
}

void Launcher::synchronize() {
  flush();
  device_.synchronize();
}

void Launcher::copy_in(void* to, const void* from, std::size_t bytes) {
  flush();
  device_.copy_in(to, from, bytes);
}

std::uint64_t Launcher::copy_beside(void* to, const void* from, std::size_t bytes) {
  const std::uint64_t before = mark();
  return device_.copy_beside(to, from, bytes, before);
}

void Launcher::await_copy(std::uint64_t copy) {
  flush();
  device_.await_copy(copy);
}

}  // namespace yamata::cuda
