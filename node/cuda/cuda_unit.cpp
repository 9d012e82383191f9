#include "node/cuda/cuda_unit.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>
#include <utility>

#include "node/device_scratch.hpp"
#include "node/error.hpp"
#include "node/lost_pages.hpp"

namespace yamata::cuda {
namespace {

/// Number of operations that are launched together (a part), and of parts that the host is ahead of the device: enough that the device
/// never waits for the host, but few, so that a cancelled list ends soon.
constexpr std::size_t kPartOps = 8, kAhead = 2;

std::atomic<int> g_units{0};  // of this process

/// Identifies a list of operations; empty if it is not a pass of a model.
ListShape shape_of(std::span<const Op> ops) {
  for (const Op& op : ops) {
    const auto* linear = std::get_if<LinearOp>(&op);
    if (!linear) continue;
    for (const LinearOp::Part& part : linear->parts) {
      if (part.weight) return {part.weight->packed ? part.weight->packed : part.weight->data, linear->rows, ops.size()};
    }
  }
  return {};
}

}  // namespace

CudaUnit::CudaUnit(std::unique_ptr<Device> device, std::shared_ptr<DeviceClaim> claim, LaunchOptions options)
    : claim_(std::move(claim)), device_(std::move(device)), context_(*device_, options) {
  ++g_units;
}

CudaUnit::~CudaUnit() { --g_units; }

void CudaUnit::start(std::span<const Op> ops, const std::atomic<bool>* stop) {
  ops_ = ops;
  stop_ = stop;
  together_ = std::ranges::any_of(ops, synchronizes);
  context_.stop = stop;
  context_.declined = together_ && stop && stop->load();
  was_stopped_ = false;
  busy_.begin();
  pool_.start([this](int) { work(); });
}

bool CudaUnit::wait_for(std::chrono::microseconds limit) {
  if (!pool_.wait_for(limit)) return false;
  busy_.count();
  copied_ = {context_.copies.bytes(), device_->copy_wait_s()};
  require_pages();
  return true;
}

/// Even after an error, all kernels have ended when this returns, because they use the memory of the list.
void CudaUnit::work() {
  struct Ended {
    CudaUnit& unit;
    ~Ended() {
      try {
        unit.context_.launcher.drop();
        unit.device_->synchronize();
      } catch (...) {  // the first error was already thrown
      }
      unit.busy_.end();
    }
  } ended{*this};
  context_.memory.begin();
  context_.visible.clear();
  context_.finished = nullptr;
  keep_logits();
  const auto barriers = static_cast<std::size_t>(std::ranges::count_if(ops_, synchronizes));
  context_.launcher.begin(shape_of(ops_), context_.declined ? 0 : barriers, g_units == 1);
  if (!context_.declined) context_.copies.begin(ops_);
  compute();
}

/// Logits that only the search for the highest reads stay in the memory of the device.
void CudaUnit::keep_logits() {
  for (const Op& op : ops_) {
    const auto* highest = std::get_if<HighestOp>(&op);
    if (!highest || !highest->only_reader) continue;
    const auto bytes = static_cast<std::size_t>(highest->rows * highest->cols) * sizeof(float);
    if (bytes <= kMaxDeviceLogitBytes) context_.memory.keep(highest->x, bytes);
  }
}

void CudaUnit::compute() {
  Launcher& launcher = context_.launcher;
  struct Part {
    std::uint64_t mark;
    std::size_t ops;
  };
  std::deque<Part> parts;
  const auto await = [&](std::size_t most) {
    for (; parts.size() > most; parts.pop_front()) {
      device_->wait(parts.front().mark);
      progress_.fetch_add(parts.front().ops, std::memory_order_relaxed);
    }
  };
  std::size_t ops = 0;
  const auto end_part = [&](std::size_t ahead) {
    parts.push_back({launcher.mark(), std::exchange(ops, 0)});
    await(ahead);
  };
  for (const Op& op : ops_) {
    const auto began = std::chrono::steady_clock::now();
    was_stopped_ = !((context_.declined && !synchronizes(op)) || run(op));
    ++ops;
    if (slowness_ > 1) {
      end_part(0);
      pause(began);
    } else if (ops == kPartOps) {
      end_part(kAhead);
    }
    was_stopped_ =
        was_stopped_ || launcher.was_stopped() || (!together_ && &op != &ops_.back() && stop_ && stop_->load(std::memory_order_relaxed));
    if (was_stopped_) break;
  }
  end_part(0);
  was_stopped_ = was_stopped_ || launcher.was_stopped();
  device_->synchronize();
  if (context_.finished && !was_stopped_) *context_.finished = true;
}

bool CudaUnit::run(const Op& any) {
  if (!context_.declined) context_.copies.before(any);
  return std::visit([&](const auto& op) { return cuda::run(context_, op); }, any);
}

/// For a multiple of the time that the operation took.
void CudaUnit::pause(std::chrono::steady_clock::time_point began) {
  std::this_thread::sleep_for((std::chrono::steady_clock::now() - began) * (slowness_ - 1));
}

}  // namespace yamata::cuda
