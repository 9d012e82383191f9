#include "node/cpu/thread_pool.hpp"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "node/error.hpp"
#include "node/limits.hpp"
#include "node/spin_wait.hpp"

namespace yamata {
namespace {

struct Aborted {};  // thrown out of a barrier if another thread of the team has failed

void bind_to(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);  // a hint: if it is refused, the thread runs on any CPU
}

}  // namespace

struct ThreadPool::State {
  explicit State(int threads, bool bound) : size(threads), spins(bound ? kSpinsBound : kSpinsUnbound) {}

  void fail(std::exception_ptr what) {
    const std::lock_guard lock(mutex);
    if (!error) error = std::move(what);
    aborted.store(true);
    generation.fetch_add(1);
    generation.notify_all();
  }
  void work(int index, int cpu);
  void end_job();
  /// Ends all threads, which have no job.
  void close();

  const int size;
  const int spins;
  std::function<void(int)> job;
  alignas(64) std::atomic<std::uint32_t> jobs{0};  // number of jobs started
  alignas(64) std::atomic<std::uint32_t> generation{0};
  alignas(64) std::atomic<int> arrived{0};
  alignas(64) std::atomic<int> running{0};
  std::atomic<bool> aborted{false}, closing{false};
  std::mutex mutex;  // for error and the end of a job
  std::function<void()> told;
  std::condition_variable ended;
  std::exception_ptr error;
  std::vector<std::thread> threads;
};

void ThreadPool::State::work(int index, int cpu) {
  bind_to(cpu);
  std::uint32_t seen = 0;
  while (true) {
    wait_while(jobs, seen, spins);
    ++seen;
    if (closing.load()) return;
    try {
      job(index);
    } catch (const Aborted&) {  // the failed thread has recorded its error
    } catch (...) {
      fail(std::current_exception());
    }
    if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) end_job();
  }
}

void ThreadPool::State::end_job() {
  const std::lock_guard lock(mutex);
  ended.notify_all();
  if (told) told();
}

void ThreadPool::State::close() {
  closing = true;
  jobs.fetch_add(1);
  jobs.notify_all();
  for (std::thread& thread : threads) thread.join();
}

ThreadPool::ThreadPool(const std::vector<int>& cpus) {
  bool bound = !cpus.empty();
  for (const int cpu : cpus) bound = bound && cpu >= 0;
  state_ = std::make_unique<State>(static_cast<int>(cpus.size()), bound);
  try {
    for (int i = 0; i < state_->size; ++i) {
      state_->threads.emplace_back([state = state_.get(), i, cpu = cpus[static_cast<std::size_t>(i)]] { state->work(i, cpu); });
    }
  } catch (const std::system_error& e) {
    const std::size_t started = state_->threads.size();
    state_->close();
    throw ModelError("cannot start " + std::to_string(cpus.size()) + " threads, only " + std::to_string(started) + ": " +
                     e.code().message() + "; lower -t, or " + kRaiseLimits);
  }
}

ThreadPool::~ThreadPool() {
  {  // a thread that has not started its share would mistake `closing` for a job and leave the others at a barrier
    std::unique_lock lock(state_->mutex);
    state_->ended.wait(lock, [this] { return finished(); });
  }
  state_->close();
}

int ThreadPool::size() const { return state_->size; }

void ThreadPool::start(std::function<void(int)> job) {
  state_->job = std::move(job);
  state_->aborted = false;
  state_->arrived = 0;
  state_->running.store(state_->size, std::memory_order_release);
  state_->jobs.fetch_add(1, std::memory_order_release);
  state_->jobs.notify_all();
}

bool ThreadPool::finished() const { return state_->running.load(std::memory_order_acquire) == 0; }

bool ThreadPool::wait_for(std::chrono::microseconds limit) {
  std::unique_lock lock(state_->mutex);
  if (!state_->ended.wait_for(lock, limit, [this] { return finished(); })) return false;
  if (state_->error) std::rethrow_exception(std::exchange(state_->error, nullptr));
  return true;
}

void ThreadPool::when_finished(std::function<void()> told) {
  const std::lock_guard lock(state_->mutex);
  state_->told = std::move(told);
}

void ThreadPool::wait() {
  while (!wait_for(std::chrono::seconds(1))) {
  }
}

void ThreadPool::barrier() {
  State& s = *state_;
  const std::uint32_t generation = s.generation.load(std::memory_order_acquire);
  if (s.aborted.load()) throw Aborted{};
  if (s.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == s.size) {
    s.arrived.store(0, std::memory_order_relaxed);
    s.generation.fetch_add(1, std::memory_order_acq_rel);
    s.generation.notify_all();
  } else {
    wait_while(s.generation, generation, s.spins);
  }
  if (s.aborted.load()) throw Aborted{};
}

}  // namespace yamata
