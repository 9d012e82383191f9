#pragma once
// The messages with which a rank gets from rank 0 what its machine lacks of a model's files.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/protocol/byte_stream.hpp"
#include "src/fetch/chunk_map.hpp"

namespace yamata::wire {

/// Asks for the description of a model's files.
struct AskFiles {
  std::int32_t model = 0;  ///< its number in the job
};

struct ModelFiles {
  std::int32_t model = 0;
  fetch::ModelShape shape;
};

struct AskChunk {
  std::int32_t model = 0;
  std::uint64_t chunk = 0;
};

struct Chunk {
  std::int32_t model = 0;
  std::uint64_t chunk = 0;
  std::uint64_t checksum = 0;        ///< of the bytes as rank 0 read them
  std::span<const std::byte> bytes;  ///< when decoded: into the message
};

Bytes encode(const AskFiles&);
Bytes encode(const ModelFiles&);
Bytes encode(const AskChunk&);
Bytes encode(const Chunk&);

// Throw ClusterError if the bytes are not exactly one message of their kind. Whoever takes a chunk compares its bytes' checksum.
AskFiles decode_ask_files(std::span<const std::byte>);
ModelFiles decode_model_files(std::span<const std::byte>);
AskChunk decode_ask_chunk(std::span<const std::byte>);
Chunk decode_chunk(std::span<const std::byte>);

}  // namespace yamata::wire
