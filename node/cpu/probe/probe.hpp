#pragma once
// What a machine can do at most: bytes read, multiply-adds, barriers, by the number of threads.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "node/cpu/probe/probe_kernels.hpp"
#include "node/cpu/thread_pool.hpp"
#include "node/memory.hpp"

namespace yamata {

/// Each function measures anew and takes some hundredths of a second. The best of several passes counts: a ceiling is not lowered
/// by what else the machine was doing.
class MachineProbe {
 public:
  /// Threads on the first of these logical CPUs (-1: unbound). `memory_bytes` of memory are taken and touched by all of them: more than
  /// the caches hold. Throws std::bad_alloc.
  MachineProbe(const std::vector<int>& cpus, cpu::Isa isa, std::size_t memory_bytes);

  int most_threads() const { return static_cast<int>(cpus_.size()); }
  /// Bytes per second that `threads` read together, each a part of the memory from its begin to its end.
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
  /// The bytes of the memory that are a thread's.
  Part part(int thread, int threads) const;
  /// `work(thread)` on all threads at once; it gives units, which per second are the result.
  double rate(int threads, const std::function<double(int thread)>& work);
  double multiply_rate(int threads, std::uint64_t (*multiply)(std::uint32_t));

  std::vector<int> cpus_;
  const cpu::ProbeTable& kernels_;
  PageMemory memory_;
};

/// Memory for a MachineProbe: several times the last-level caches, as far as a part of what is free goes.
std::size_t probe_memory_bytes();

}  // namespace yamata
