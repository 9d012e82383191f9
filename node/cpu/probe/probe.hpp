#pragma once
// The peak rates of a machine: bytes read, multiply-adds, barriers, by the number of threads.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "node/cpu/probe/probe_kernels.hpp"
#include "node/cpu/thread_pool.hpp"
#include "node/memory.hpp"

namespace yamata {

/// Each call measures again and takes some hundredths of a second. The best of several passes counts, so that other load on the machine
/// does not lower the result.
class MachineProbe {
 public:
  /// Threads on the first of these logical CPUs (-1: unbound). Allocates `memory_bytes`, which must be more than the caches hold, and
  /// touches them with all threads. Throws std::bad_alloc.
  MachineProbe(const std::vector<int>& cpus, cpu::Isa isa, std::size_t memory_bytes);

  int most_threads() const { return static_cast<int>(cpus_.size()); }
  /// Bytes per second that `threads` read together, each its part of the memory from beginning to end.
  double read_bytes_per_s(int threads);
  /// Multiplications and additions of bytes per second, from registers.
  double byte_ops_per_s(int threads);
  double float_ops_per_s(int threads);
  /// Seconds from one barrier of the thread pool to the next.
  double barrier_s(int threads);

 private:
  struct Part {
    std::size_t begin, end;
  };
  /// The part of the memory that belongs to a thread.
  Part part(int thread, int threads) const;
  /// Runs `work(thread)` on all threads at once. It returns a number of units; the result is units per second.
  double rate(int threads, const std::function<double(int thread)>& work);
  double multiply_rate(int threads, std::uint64_t (*multiply)(std::uint32_t));

  std::vector<int> cpus_;
  const cpu::ProbeTable& kernels_;
  PageMemory memory_;
};

/// Bytes for a MachineProbe: several times the last-level caches, limited to a part of the free memory.
std::size_t probe_memory_bytes();

}  // namespace yamata
