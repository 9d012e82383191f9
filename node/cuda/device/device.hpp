#pragma once
// A device with memory and one stream: a GPU (cuda_device.cpp), or the emulated one (emulation/emulated_device.hpp).
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "node/cuda/kernels/device_kernels.hpp"

namespace yamata::cuda {

enum class DeviceMemory {
  kLocal,   ///< the device's own, if it has one
  kHidden,  ///< likewise, but the host does not read it
  kMapped,  ///< pinned memory of the host, which the device reads and writes in place
};

/// Memory that has the same address on host and device.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual std::byte* data() const = 0;
  virtual std::size_t size() const = 0;
};

/// A chain of launches that is launched as one.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Replaces the launch of that number by another one of the same kernel. Runs that are already in the stream do not change.
  virtual void update(std::size_t number, const simt::Launch& launch) = 0;
};

struct DeviceProperties {
  std::string name;         ///< "NVIDIA Orin"
  bool unified = false;     ///< it uses the host's memory
  bool reads_host = false;  ///< it can read any memory of the host
  bool waits = false;       ///< its stream may wait for the host
  bool waits_alone = true;  ///< meanwhile, no other unit of the process may use a device: a call of one may wait for all
  std::uint64_t memory_bytes = 0, free_bytes = 0;
};

/// Used by one thread at a time, except allocate. Errors are thrown as ClusterError, with the device and the call.
class Device {
 public:
  virtual ~Device() = default;
  /// Its name for users: "cuda:0".
  virtual std::string id() const = 0;
  virtual const DeviceProperties& properties() const = 0;
  virtual const DeviceKernels& kernels() const = 0;
  virtual Stream stream() = 0;
  /// Filled with zeros. Throws std::bad_alloc. From any thread.
  virtual std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, DeviceMemory memory) = 0;
  /// In stream order. The host may overwrite `from` when this returns.
  virtual void copy_in(void* to, const void* from, std::size_t bytes) = 0;
  /// Registers memory of the host for the device until release_host: for memory that no unit has allocated.
  virtual void reach_host(const void* begin, std::size_t bytes) = 0;
  virtual void release_host() = 0;
  /// Throws if the last launch failed.
  virtual void check(const char* what) = 0;
  virtual std::unique_ptr<DeviceGraph> make_graph(std::span<const simt::Launch> launches) = 0;
  /// In stream order. The graph must be of this device.
  virtual void launch(DeviceGraph& graph) = 0;
  /// Throws if the device has failed. Does not wait.
  virtual void require_well() = 0;
  /// Records a mark in the stream, counted from 1; wait() waits until the device has reached it.
  virtual std::uint64_t mark() = 0;
  virtual void wait(std::uint64_t mark) = 0;
  /// Beside the stream, when it has reached `mark`: copies mapped memory, which must not change until synchronize(), into the device's own.
  /// Returns the number of the copy, counted from 1.
  virtual std::uint64_t copy_beside(void* to, const void* from, std::size_t bytes, std::uint64_t mark) = 0;
  /// In stream order: waits for that copy.
  virtual void await_copy(std::uint64_t copy) = 0;
  /// Seconds that the stream has waited for copies, as of the latest synchronize().
  virtual double copy_wait_s() const = 0;
  /// Waits until the stream is empty, and all copies are done.
  virtual void synchronize() = 0;
};

}  // namespace yamata::cuda
