#pragma once
// Threads bound to cores that run one job at a time together.
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace yamata {

class ThreadPool {
 public:
  /// One thread per entry of `cpus`, bound to that logical CPU; -1 leaves a thread unbound.
  explicit ThreadPool(const std::vector<int>& cpus);
  /// Waits for a running job.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;
  /// Runs job(thread index) on every thread; returns at once. One job at a time.
  void start(std::function<void(int)> job);
  bool finished() const;
  /// Waits for the job at most this long; true when it has ended. An exception of the job is rethrown here once.
  bool wait_for(std::chrono::microseconds limit);
  void wait();
  /// Sets a function that one of the threads calls at the end of every job. With an empty function, no calls happen after this returns.
  void when_finished(std::function<void()> told);
  /// A barrier, called by every thread of a running job. Spins shortly, then sleeps.
  void barrier();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace yamata
