#include "node/cpu/slowdown.hpp"

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

Slowdown::Slowdown(double factor, const std::string& turns) : factor_(factor) {
  if (!turns.empty()) turns_ = open(turns.c_str(), O_RDWR | O_CLOEXEC);
}

Slowdown::Slowdown(Slowdown&& other) noexcept : Slowdown() { *this = std::move(other); }

Slowdown& Slowdown::operator=(Slowdown&& other) noexcept {
  std::swap(factor_, other.factor_);
  std::swap(turns_, other.turns_);
  std::swap(began_cpu_s_, other.began_cpu_s_);
  std::swap(debt_s_, other.debt_s_);
  return *this;
}

Slowdown::~Slowdown() {
  if (turns_ >= 0) close(turns_);
}

void Slowdown::begin_operation() {
  if (slows()) begin_computing();
}

void Slowdown::end_operation() {
  if (!slows()) return;
  end_computing();
  if (debt_s_ <= 0) return;
  debt_s_ -= waited_s([this] { std::this_thread::sleep_for(std::chrono::duration<double>(debt_s_)); });
}

void Slowdown::begin_exchange() {
  if (slows()) end_computing();
}

void Slowdown::end_exchange() {
  if (slows()) begin_computing();
}

/// Takes a lock on the open file, which is released when the process ends, however it ends.
void Slowdown::begin_computing() {
  if (turns_ >= 0) {
    debt_s_ -= waited_s([this] {
      while (flock(turns_, LOCK_EX) != 0 && errno == EINTR) {
      }
    });
  }
  began_cpu_s_ = thread_cpu_s();
}

void Slowdown::end_computing() {
  debt_s_ += (thread_cpu_s() - began_cpu_s_) * (factor_ - 1);
  if (turns_ >= 0) flock(turns_, LOCK_UN);
}

}  // namespace yamata
