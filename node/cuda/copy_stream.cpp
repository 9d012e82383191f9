#include "node/cuda/copy_stream.hpp"

namespace yamata::cuda {

CopyStream::CopyStream(Require require) : require_(std::move(require)) {
  require_(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

CopyStream::~CopyStream() {
  cudaStreamSynchronize(stream_);
  for (cudaEvent_t each : copied_) cudaEventDestroy(each);
  for (const auto& [before, after] : waited_) cudaEventDestroy(before), cudaEventDestroy(after);
  for (const auto& events : {spare_, spare_timed_}) {
    for (cudaEvent_t each : events) cudaEventDestroy(each);
  }
  cudaStreamDestroy(stream_);
}

cudaEvent_t CopyStream::event(std::vector<cudaEvent_t>& spare, unsigned flags) {
  cudaEvent_t made = nullptr;
  if (spare.empty()) {
    require_(cudaEventCreateWithFlags(&made, flags), "making an event");
  } else {
    made = spare.back();
    spare.pop_back();
  }
  return made;
}

std::uint64_t CopyStream::copy(void* to, const void* from, std::size_t bytes, cudaEvent_t after) {
  if (after) require_(cudaStreamWaitEvent(stream_, after, 0), "waiting for its stream");
  require_(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copying weights to it");
  copied_.push_back(event(spare_, cudaEventDisableTiming));
  require_(cudaEventRecord(copied_.back(), stream_), "marking copies");
  return done_ + copied_.size();
}

void CopyStream::await(std::uint64_t copy, cudaStream_t stream) {
  if (copy <= done_) return;
  const cudaEvent_t before = event(spare_timed_, cudaEventDefault), after = event(spare_timed_, cudaEventDefault);
  waited_.emplace_back(before, after);
  require_(cudaEventRecord(before, stream), "marking its stream");
  require_(cudaStreamWaitEvent(stream, copied_[copy - done_ - 1], 0), "waiting for copies");
  require_(cudaEventRecord(after, stream), "marking its stream");
}

void CopyStream::synchronize() {
  require_(cudaStreamSynchronize(stream_), "copying weights to it");
  for (const auto& [before, after] : waited_) {
    float ms = 0;
    require_(cudaEventElapsedTime(&ms, before, after), "measuring copies");
    waited_s_ += 1e-3 * static_cast<double>(ms);
    spare_timed_.insert(spare_timed_.end(), {before, after});
  }
  waited_.clear();
  done_ += copied_.size();
  spare_.insert(spare_.end(), copied_.begin(), copied_.end());
  copied_.clear();
}

}  // namespace yamata::cuda
