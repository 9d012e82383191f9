#pragma once
// A device without a GPU: a thread of its own runs the kernels on the host, in stream order.
#include <atomic>
#include <vector>

#include "node/cuda/device/device.hpp"
#include "node/cuda/emulation/emulated_stream.hpp"

namespace yamata::cuda {

/// Bugs of a device that tests must detect.
enum class InjectedFault {
  kNone,
  kStaleGraph,   ///< the launches of a graph are never updated
  kOtherGraph,   ///< the previous graph is run instead
  kNoStreamWait  ///< the stream does not wait for the host
};

/// When copies beside the stream are made. A card may do any of it.
enum class CopyTime {
  kAny,    ///< by a thread of their own
  kEarly,  ///< at once, before anything that the stream need not have done yet
  kLate    ///< when the stream waits for them
};

struct EmulatedDeviceOptions {
  std::string id = "emulated:0";
  bool unified = true;  ///< false: weights are copied to it, as to a GPU with its own memory
  std::uint64_t memory_bytes = std::uint64_t{1} << 40;
  std::shared_ptr<std::atomic<std::uint64_t>> used{};  ///< bytes in use, which units of one device share; null: of its own
  std::uint64_t fails_at = 0;                          ///< this launch, counted from 1, and all later ones fail; 0: none
  std::uint64_t stream_fails_at = 0;                   ///< likewise for kernels: reported when somebody waits for the device
  InjectedFault fault = InjectedFault::kNone;
  CopyTime copies = CopyTime::kAny;
};

class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(EmulatedDeviceOptions options = {});
  ~EmulatedDevice() override;

  std::string id() const override { return options_.id; }
  const DeviceProperties& properties() const override { return properties_; }
  const DeviceKernels& kernels() const override { return kernels_; }
  Stream stream() override { return &direct_; }
  /// Waits for everything in the stream, as CUDA may do.
  std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, DeviceMemory memory) override;
  void copy_in(void* to, const void* from, std::size_t bytes) override;
  /// As CUDA, refuses memory that cannot be written, such as a mapped file, and what devices have allocated.
  void reach_host(const void* begin, std::size_t bytes) override;
  void release_host() override {}
  void check(const char* what) override;
  std::unique_ptr<DeviceGraph> make_graph(std::span<const simt::Launch> launches) override;
  void launch(DeviceGraph& graph) override;
  void require_well() override { stream_.require_well(); }
  std::uint64_t mark() override { return stream_.end(); }
  void wait(std::uint64_t mark) override { stream_.wait(mark); }
  std::uint64_t copy_beside(void* to, const void* from, std::size_t bytes, std::uint64_t mark) override;
  void await_copy(std::uint64_t copy) override;
  double copy_wait_s() const override { return copy_wait_s_; }
  void synchronize() override;

  /// Bytes of its memory in use.
  std::uint64_t used_bytes() const { return *used_; }
  /// Bytes of the host that were registered for kernels so far, because no device had allocated them. Expensive on a GPU.
  std::uint64_t reached_bytes() const { return reached_; }

 private:
  class Graph;
  struct Direct final : simt::LaunchSink {
    explicit Direct(EmulatedDevice& its_device) : device(its_device) {}
    void put(const simt::Launch& launch) override;
    EmulatedDevice& device;
  };
  void run(const simt::Launch& launch);

  const EmulatedDeviceOptions options_;
  DeviceProperties properties_;
  DeviceKernels kernels_;
  std::shared_ptr<std::atomic<std::uint64_t>> used_;  // buffers also hold it
  std::uint64_t launches_ = 0, reached_ = 0;
  std::uint64_t run_ = 0;                         // kernels that the stream has run
  std::vector<simt::Launch> made_, made_before_;  // by the latest graphs
  Direct direct_{*this};
  double copy_wait_s_ = 0;
  EmulatedStream copies_, stream_;  // last: they use the others
};

}  // namespace yamata::cuda
