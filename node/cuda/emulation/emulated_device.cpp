#include "node/cuda/emulation/emulated_device.hpp"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "node/device_memory.hpp"
#include "node/error.hpp"
#include "node/memory.hpp"

namespace yamata::cuda {
namespace {

/// The memory of all emulated devices.
struct Allocated {
  std::mutex mutex;
  std::map<const std::byte*, std::size_t> sizes;

  static Allocated& all() {
    static Allocated its;
    return its;
  }
  bool contains(const void* memory) {
    const std::lock_guard lock(mutex);
    const auto* byte = static_cast<const std::byte*>(memory);
    const auto after = sizes.upper_bound(byte);
    return after != sizes.begin() && byte < std::prev(after)->first + std::prev(after)->second;
  }
};

class PagesBuffer final : public DeviceBuffer {
 public:
  PagesBuffer(std::size_t bytes, std::shared_ptr<std::atomic<std::uint64_t>> used, bool own)
      : memory_(bytes, PageMemory::Pages::kSmall), used_(std::move(used)), own_bytes_(own ? static_cast<std::int64_t>(bytes) : 0) {
    count_device_bytes(own_bytes_);
    const std::lock_guard lock(Allocated::all().mutex);
    Allocated::all().sizes[memory_.data()] = memory_.size();
  }
  ~PagesBuffer() override {
    {
      const std::lock_guard lock(Allocated::all().mutex);
      Allocated::all().sizes.erase(memory_.data());
    }
    used_->fetch_sub(static_cast<std::uint64_t>(own_bytes_));
    count_device_bytes(-own_bytes_);
  }
  std::byte* data() const override { return memory_.data(); }
  std::size_t size() const override { return memory_.size(); }

 private:
  PageMemory memory_;
  std::shared_ptr<std::atomic<std::uint64_t>> used_;
  std::int64_t own_bytes_;
};

/// Whether the mapping at this address can be written.
bool is_writable(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long long begin = 0, end = 0;
    char rights[5] = {};
    if (std::sscanf(line.c_str(), "%llx-%llx %4s", &begin, &end, rights) == 3 && address >= begin && address < end) return rights[1] == 'w';
  }
  return false;
}

}  // namespace

/// A list of launches; each run has its own copy.
class EmulatedDevice::Graph final : public DeviceGraph {
 public:
  Graph(std::span<const simt::Launch> launches, InjectedFault fault) : launches_(launches.begin(), launches.end()), fault_(fault) {}
  void update(std::size_t number, const simt::Launch& launch) override {
    if (launches_.at(number).kernel != launch.kernel) throw std::logic_error("a graph's launch becomes one of another kernel");
    if (fault_ != InjectedFault::kStaleGraph) launches_[number] = launch;
  }
  const std::vector<simt::Launch>& launches() const { return launches_; }

 private:
  std::vector<simt::Launch> launches_;
  const InjectedFault fault_;
};

EmulatedDevice::EmulatedDevice(EmulatedDeviceOptions options)
    : options_(std::move(options)),
      kernels_(kEmulatedKernels),
      used_(options_.used ? options_.used : std::make_shared<std::atomic<std::uint64_t>>(0)),
      copies_(options_.copies == CopyTime::kLate),
      stream_(options_.copies == CopyTime::kEarly) {
  properties_ = {.name = "emulated device",
                 .unified = options_.unified,
                 .reads_host = options_.unified,
                 .waits = true,
                 .waits_alone = false,
                 .memory_bytes = options_.memory_bytes,
                 .free_bytes = options_.memory_bytes};
  if (options_.fault == InjectedFault::kNoStreamWait) kernels_.await_flag = [](const FlagArgs&, Stream) {};
}

/// Copies and stream wait for each other.
EmulatedDevice::~EmulatedDevice() {
  try {
    synchronize();
  } catch (...) {  // the first error was already thrown
  }
}

std::unique_ptr<DeviceBuffer> EmulatedDevice::allocate(std::size_t bytes, DeviceMemory memory) {
  synchronize();
  const bool own = options_.unified || memory != DeviceMemory::kMapped;
  const std::size_t counted = own ? bytes : 0;
  if (used_->fetch_add(counted) + counted > options_.memory_bytes) {
    used_->fetch_sub(counted);
    throw std::bad_alloc();
  }
  try {
    return std::make_unique<PagesBuffer>(bytes, used_, own);
  } catch (const std::bad_alloc&) {
    used_->fetch_sub(counted);
    throw;
  }
}

/// The host may overwrite its memory at once, so the stream gets a copy, as with CUDA.
void EmulatedDevice::copy_in(void* to, const void* from, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  stream_.put([to, copy = std::vector<std::byte>(begin, begin + bytes)] { std::memcpy(to, copy.data(), copy.size()); });
}

std::uint64_t EmulatedDevice::copy_beside(void* to, const void* from, std::size_t bytes, std::uint64_t mark) {
  if (!Allocated::all().contains(from)) throw ClusterError("device " + id() + ": copying beside its stream failed: not mapped memory");
  copies_.put([this, to, from, bytes, mark] {
    stream_.wait(mark);
    std::memcpy(to, from, bytes);
  });
  const std::uint64_t copy = copies_.end();
  if (options_.copies == CopyTime::kEarly) copies_.wait(copy);
  return copy;
}

void EmulatedDevice::await_copy(std::uint64_t copy) {
  stream_.put([this, copy] {
    const auto began = std::chrono::steady_clock::now();
    copies_.wait(copy);
    copy_wait_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  });
}

void EmulatedDevice::synchronize() {
  try {
    copies_.wait(copies_.end());
  } catch (...) {
    stream_.wait(stream_.end());
    throw;
  }
  stream_.wait(stream_.end());
}

void EmulatedDevice::reach_host(const void* begin, std::size_t bytes) {
  if (!is_writable(begin)) throw ClusterError("device " + id() + ": mapping memory of the host failed: it is read-only");
  if (Allocated::all().contains(begin)) throw ClusterError("device " + id() + ": mapping memory of the host failed: a device's own");
  reached_ += bytes;
}

void EmulatedDevice::Direct::put(const simt::Launch& launch) {
  ++device.launches_;
  device.stream_.put([&its = device, launch] { its.run(launch); });
}

void EmulatedDevice::run(const simt::Launch& launch) {
  if (options_.stream_fails_at > 0 && ++run_ >= options_.stream_fails_at)
    throw ClusterError("device " + id() + ": " + launch.what + " failed on it; run with --units cpu, or see whether it is well");
  launch.run(launch);
}

void EmulatedDevice::check(const char* what) {
  if (options_.fails_at > 0 && launches_ >= options_.fails_at)
    throw ClusterError(std::string("device ") + id() + ": " + what + " failed; run with --units cpu, or see whether it is well");
}

std::unique_ptr<DeviceGraph> EmulatedDevice::make_graph(std::span<const simt::Launch> launches) {
  made_before_ = std::exchange(made_, {launches.begin(), launches.end()});
  return std::make_unique<Graph>(launches, options_.fault);
}

void EmulatedDevice::launch(DeviceGraph& graph) {
  const auto& asked_for = static_cast<const Graph&>(graph).launches();
  const bool other = options_.fault == InjectedFault::kOtherGraph && !made_before_.empty();
  launches_ += asked_for.size();
  stream_.put([this, launches = other ? made_before_ : asked_for] {
    for (const simt::Launch& launch : launches) run(launch);
  });
  check("a graph");
}

}  // namespace yamata::cuda
