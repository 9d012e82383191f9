#include "node/cuda/emulation/emulated_stream.hpp"

#include <algorithm>
#include <utility>

namespace yamata::cuda {

EmulatedStream::EmulatedStream(bool late) : late_(late), thread_([this] { run(); }) {}

EmulatedStream::~EmulatedStream() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    added_.notify_one();
  }
  thread_.join();
}

void EmulatedStream::put(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  ++added_count_;
  added_.notify_one();
}

std::uint64_t EmulatedStream::end() {
  const std::lock_guard lock(mutex_);
  return added_count_;
}

void EmulatedStream::wait(std::uint64_t end) {
  std::unique_lock lock(mutex_);
  awaited_count_ = std::max(awaited_count_, end);
  added_.notify_one();
  done_.wait(lock, [&] { return done_count_ >= end; });
  if (failed_) std::rethrow_exception(failed_);
}

void EmulatedStream::require_well() {
  const std::lock_guard lock(mutex_);
  if (failed_) std::rethrow_exception(failed_);
}

void EmulatedStream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    added_.wait(lock, [this] { return ends_ || (!work_.empty() && (!late_ || done_count_ < awaited_count_)); });
    if (work_.empty()) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    if (!failed_) {
      lock.unlock();
      std::exception_ptr failed;
      try {
        work();
      } catch (...) {
        failed = std::current_exception();
      }
      lock.lock();
      if (failed) failed_ = failed;
    }
    ++done_count_;
    done_.notify_all();
  }
}

}  // namespace yamata::cuda
