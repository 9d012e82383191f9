#pragma once
// A device with memory and one stream of work: a card (cuda_device.cpp), or the emulated one (emulation/emulated_device.hpp).
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "node/cuda/device_kernels.hpp"

namespace yamata::cuda {

enum class DeviceMemory {
  kLocal,   ///< the device's own, where it has one
  kMapped,  ///< the host's, which the device reads and writes in place
};

/// Memory that host and device know by the same address.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual std::byte* data() const = 0;
  virtual std::size_t size() const = 0;
};

/// Launches, one after the other, that a device runs as one.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// The launch of that number becomes another one of the same kernel. Runs that have been put into the stream stay as they are.
  virtual void update(std::size_t number, const simt::Launch& launch) = 0;
};

struct DeviceProperties {
  std::string name;         ///< "NVIDIA Orin"
  bool unified = false;     ///< its memory is the host's
  bool reads_host = false;  ///< any memory of the host, as it is
  bool waits = false;       ///< its stream may wait for the host
  bool waits_alone = true;  ///< while it does, nobody may use another device of the process: a call of one may wait for all
  std::uint64_t memory_bytes = 0, free_bytes = 0;
};

/// Used by one thread at a time, but for allocate. Whatever fails throws ClusterError naming the device and the call.
class Device {
 public:
  virtual ~Device() = default;
  /// What a user calls it: "cuda:0".
  virtual std::string id() const = 0;
  virtual const DeviceProperties& properties() const = 0;
  virtual const DeviceKernels& kernels() const = 0;
  virtual Stream stream() = 0;
  /// Zeros. Throws std::bad_alloc where there is not so much. From any thread.
  virtual std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, DeviceMemory memory) = 0;
  /// In order of the stream; the host's bytes may change once this has returned.
  virtual void copy_in(void* to, const void* from, std::size_t bytes) = 0;
  /// Lets the device reach memory of the host until release_host: for what no unit has set aside.
  virtual void reach_host(const void* begin, std::size_t bytes) = 0;
  virtual void release_host() = 0;
  /// After a launch: whether it could be made.
  virtual void check(const char* what) = 0;
  virtual std::unique_ptr<DeviceGraph> make_graph(std::span<const simt::Launch> launches) = 0;
  /// In order of the stream. The graph is one of this device's.
  virtual void launch(DeviceGraph& graph) = 0;
  /// Throws where the device has failed; waits for nothing.
  virtual void require_well() = 0;
  /// A mark in the stream, counted from 1; waits until the device has come by it.
  virtual std::uint64_t mark() = 0;
  virtual void wait(std::uint64_t mark) = 0;
  /// Until all work is done.
  virtual void synchronize() = 0;
};

}  // namespace yamata::cuda
