#include "node/cuda/cuda_unit.hpp"

#include <algorithm>
#include <deque>
#include <thread>

#include "node/error.hpp"
#include "node/lost_pages.hpp"

namespace yamata::cuda {
namespace {

/// Operations that the host is ahead of the device: enough that it never waits for the host, and few, so that a list is left soon.
constexpr std::size_t kAhead = 8;

}  // namespace

CudaUnit::CudaUnit(std::unique_ptr<Device> device, std::unique_ptr<DeviceClaim> claim)
    : claim_(std::move(claim)), device_(std::move(device)), context_(*device_) {}

std::uint64_t CudaUnit::scratch_bytes(const ScratchNeeds& needs) {
  constexpr std::int64_t kPartials = 64 << 20, kSegments = 4096 / kAttentionSegment;
  const std::int64_t quantized = (needs.widest + 31) / 32 * DeviceRows::kBlockBytes * needs.rows;
  const std::int64_t partial = needs.rows * needs.heads * kSegments * (needs.head_dim + 2) * static_cast<std::int64_t>(sizeof(float));
  return static_cast<std::uint64_t>(quantized + std::min(kPartials, partial));
}

void CudaUnit::start(std::span<const Op> ops, const std::atomic<bool>* stop) {
  ops_ = ops;
  stop_ = stop;
  together_ = std::ranges::any_of(ops, meets);
  context_.stop = stop;
  context_.declined = together_ && stop && stop->load();
  left_ = false;
  busy_.begin();
  pool_.start([this](int) { work(); });
}

bool CudaUnit::wait_for(std::chrono::microseconds limit) {
  if (!pool_.wait_for(limit)) return false;
  busy_.count();
  require_pages();
  return true;
}

/// Whatever goes wrong, kernels have ended when this has: they use the list's memory.
void CudaUnit::work() {
  struct Ended {
    CudaUnit& unit;
    ~Ended() {
      try {
        unit.device_->synchronize();
      } catch (const Error&) {  // it has been told of
      }
      unit.busy_.end();
    }
  } ended{*this};
  context_.memory.begin();
  context_.visible.clear();
  std::deque<std::uint64_t> marks;
  const auto await = [&](std::size_t most) {
    for (; marks.size() > most; marks.pop_front()) {
      device_->wait(marks.front());
      progress_.fetch_add(1, std::memory_order_relaxed);
    }
  };
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const auto began = std::chrono::steady_clock::now();
    const bool goes_on = (context_.declined && !meets(ops_[i])) || run(ops_[i]);
    marks.push_back(device_->mark());
    await(slowness_ > 1 ? 0 : kAhead);
    if (slowness_ > 1) pause(began);
    left_ = !goes_on || (!together_ && i + 1 < ops_.size() && stop_ && stop_->load(std::memory_order_relaxed));
    if (left_) break;
  }
  await(0);
  device_->synchronize();
}

bool CudaUnit::run(const Op& any) {
  return std::visit([&](const auto& op) { return cuda::run(context_, op); }, any);
}

/// For so many times what the operation took.
void CudaUnit::pause(std::chrono::steady_clock::time_point began) {
  std::this_thread::sleep_for((std::chrono::steady_clock::now() - began) * (slowness_ - 1));
}

}  // namespace yamata::cuda
