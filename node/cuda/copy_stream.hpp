#pragma once
// Copies into a GPU's memory beside its stream.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

namespace yamata::cuda {

/// A stream for copies. The calling thread's current device must be the GPU.
class CopyStream {
 public:
  /// Throws for errors of a call.
  using Require = std::function<void(cudaError_t, const char*)>;
  explicit CopyStream(Require require);
  ~CopyStream();
  CopyStream(CopyStream&&) = delete;

  /// After `event`, unless it is null. Returns the number of the copy, counted from 1.
  std::uint64_t copy(void* to, const void* from, std::size_t bytes, cudaEvent_t event);
  /// The other stream waits for that copy.
  void await(std::uint64_t copy, cudaStream_t stream);
  /// Waits for all copies. The other stream must be empty.
  void synchronize();
  /// Seconds that the other stream has waited, as of the latest synchronize().
  double waited_s() const { return waited_s_; }

 private:
  cudaEvent_t event(std::vector<cudaEvent_t>& spare, unsigned flags);

  Require require_;
  cudaStream_t stream_ = nullptr;
  std::uint64_t done_ = 0;                                   // copies that are over
  std::deque<cudaEvent_t> copied_;                           // of later copies
  std::vector<std::pair<cudaEvent_t, cudaEvent_t>> waited_;  // before and after each wait
  std::vector<cudaEvent_t> spare_, spare_timed_;
  double waited_s_ = 0;
};

}  // namespace yamata::cuda
