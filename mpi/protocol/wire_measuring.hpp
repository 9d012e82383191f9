#pragma once
// The messages of measurements between the hellos and the plan: speeds of ranks, links, and layers that a group shares.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/protocol/byte_stream.hpp"

namespace yamata::wire {

/// The measured speed of a rank.
struct Measured {
  double ns_per_byte = 0;                 ///< wall time per byte of the target's weights; 0: not measured
  std::vector<double> width_multiples{};  ///< time of runs of kProbedWidths tokens, relative to a run of one token; empty: not measured
};

/// A message for measuring the latency and rate of a link.
struct Probe {
  std::uint32_t number = 0;          ///< counts the probes of one rank
  std::vector<std::byte> padding{};  ///< makes the message long
};

/// Asks some ranks to compute layers of the target together, to measure their time.
struct BenchmarkRequest {
  std::vector<std::int32_t> ranks;  ///< ascending
  std::vector<double> shares;       ///< of each layer's columns, per rank
  std::int32_t layer = 0;           ///< the first
  std::int32_t layers = 1;          ///< number of layers
  std::int32_t runs = 1;            ///< number of counted runs of one token
};

/// A member's result: means over its runs.
struct BenchmarkResult {
  double computing_s = 0;  ///< of all these layers
  double exchange_s = 0;   ///< of one exchange, from when this rank came to it
};

Bytes encode(const Measured&);
Bytes encode(const Probe&);
Bytes encode(const BenchmarkRequest&);
Bytes encode(const BenchmarkResult&);

// Throw ClusterError if the bytes are not exactly one message of their kind.
Measured decode_measured(std::span<const std::byte>);
Probe decode_probe(std::span<const std::byte>);
BenchmarkRequest decode_benchmark_request(std::span<const std::byte>);
BenchmarkResult decode_benchmark_result(std::span<const std::byte>);

}  // namespace yamata::wire
