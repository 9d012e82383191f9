#pragma once
// The message with which a rank joins a job.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mpi/protocol/byte_stream.hpp"
#include "mpi/protocol/wire_measuring.hpp"

namespace yamata::wire {

inline constexpr std::uint32_t kProtocolVersion = 38;

/// As a number of layers: as many as fit into the device's memory beside drafts; the plan says how many that are.
inline constexpr std::int32_t kLayersThatFit = 1 << 20;

struct Hello {
  std::uint32_t protocol = kProtocolVersion;
  std::string version, host, isa;
  std::vector<std::uint64_t> fingerprints{};  ///< of the job's models: the target, then the drafts; 0: not opened
  std::uint64_t available_bytes = 0;
  std::int32_t threads = 0;
  std::int32_t model = 0;               ///< the model that it must have: 0: the target; 1, 2, ...: the drafts
  std::uint64_t machine = 0;            ///< equal for ranks of one machine, whatever their host names; 0: unknown
  std::string cpu{};                    ///< name of its processor; ranks with the same name and number of threads count as equally fast
  std::string cpu_group{};              ///< control group whose processors it shares with others of its host
  std::int32_t logical_cpus = 0;        ///< of its host, that it may use
  std::int64_t threads_measured_s = 0;  ///< when `threads` was measured as the fastest, in seconds since the epoch; 0: not measured
  std::string device{};                 ///< what it computes on, as in --units; empty: CPU cores only
  std::int32_t device_layers = 0;       ///< number of the target's first layers that a device computes alone; kLayersThatFit
  std::int32_t device_copies = 0;       ///< 1: it computes the others, too, whose weights are copied to it for every run
  std::int32_t device_is_unified = 0;   ///< 1: the device uses the host's memory; 0: memory of its own
  std::uint64_t device_bytes = 0;       ///< free bytes of the device
  std::int32_t device_drafts = 0;       ///< 1: drafts and heads of this rank are on that device, too
  std::int32_t fetches_to_memory = 0;   ///< 1: the weights that it fetches from rank 0 stay in memory, beside the packed ones
  std::string no_device{};              ///< why it has no device, though one was to compute some layers
  Measured measured{};                  ///< not part of the message: the head adds what the rank measures later

  /// Whether all weights and data are in the memory of its devices, if those have their own; then available_bytes is theirs.
  bool lies_on_devices() const { return !device.empty() && device_layers == 0; }
};

/// A name for the memory that a rank uses: its host's, or that of its devices.
inline std::string memory_of(const std::vector<Hello>& hellos, std::size_t rank) {
  const Hello& hello = hellos[rank];
  return hello.lies_on_devices() ? hello.host + ": devices of rank " + std::to_string(rank) : hello.host;
}

Bytes encode(const Hello&);
/// Throws ClusterError if the bytes are not exactly one hello. If the protocol differs, only its version is read.
Hello decode_hello(std::span<const std::byte>);

}  // namespace yamata::wire
