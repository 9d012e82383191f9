#include "node/cpu/slow_motion.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "node/thread_time.hpp"

namespace yamata {
namespace {

/// Seconds that `wait` takes.
template <class Wait>
double waited_s(Wait wait) {
  const auto began = std::chrono::steady_clock::now();
  wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace

SlowMotion::SlowMotion(double factor, const std::string& turns) : factor_(factor) {
  if (!turns.empty()) turns_ = open(turns.c_str(), O_RDWR | O_CLOEXEC);
}

SlowMotion::SlowMotion(SlowMotion&& other) noexcept : SlowMotion() { *this = std::move(other); }

SlowMotion& SlowMotion::operator=(SlowMotion&& other) noexcept {
  std::swap(factor_, other.factor_);
  std::swap(turns_, other.turns_);
  std::swap(began_cpu_s_, other.began_cpu_s_);
  std::swap(debt_s_, other.debt_s_);
  return *this;
}

SlowMotion::~SlowMotion() {
  if (turns_ >= 0) close(turns_);
}

void SlowMotion::begin_operation() {
  if (slows()) begin_computing();
}

void SlowMotion::end_operation() {
  if (!slows()) return;
  end_computing();
  if (debt_s_ <= 0) return;
  debt_s_ -= waited_s([this] { std::this_thread::sleep_for(std::chrono::duration<double>(debt_s_)); });
}

void SlowMotion::begin_exchange() {
  if (slows()) end_computing();
}

void SlowMotion::end_exchange() {
  if (slows()) begin_computing();
}

/// Takes a lock on the open file, which is released when the process ends, however it ends.
void SlowMotion::begin_computing() {
  if (turns_ >= 0) {
    debt_s_ -= waited_s([this] {
      while (flock(turns_, LOCK_EX) != 0 && errno == EINTR) {
      }
    });
  }
  began_cpu_s_ = thread_cpu_s();
}

void SlowMotion::end_computing() {
  debt_s_ += (thread_cpu_s() - began_cpu_s_) * (factor_ - 1);
  if (turns_ >= 0) flock(turns_, LOCK_UN);
}

}  // namespace yamata
