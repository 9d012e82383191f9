#pragma once
// Rank 0 serves the models' files to ranks whose machines lack them.
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "mpi/transport/transport.hpp"
#include "src/fetch/chunk_map.hpp"

namespace yamata {

/// The files of the job's models on this rank.
class WeightsSource {
 public:
  virtual ~WeightsSource() = default;
  /// Throws ClusterError if there is no such model, ModelError if its files cannot be read.
  virtual const fetch::ModelShape& shape(std::int32_t model) = 0;
  /// A whole file of a model, mapped.
  virtual std::span<const std::byte> bytes(std::int32_t model, std::size_t part) = 0;
};

/// Chunks that a rank has asked for and not received yet. Messages to a rank are buffered without a limit, so this bounds the memory.
inline constexpr std::size_t kMostOutstanding = 4;

/// A state machine of the control thread, which reads a chunk at a time, so that the other messages need not wait long.
class WeightsServer {
 public:
  /// `source`: null: no rank may ask.
  WeightsServer(Transport& transport, WeightsSource* source);

  /// Takes a question; false: the message is another. Throws ClusterError if what it asks for does not exist.
  bool take(const Message& message);
  /// Sends the next chunk, of each rank that has asked in turn. False: none is asked for. Throws LostPages if the file has been cut.
  bool advance();

 private:
  Transport& transport_;
  WeightsSource* const source_;
  std::vector<std::deque<wire::AskChunk>> asked_;  // per rank
  std::size_t next_ = 0;                           // the rank whose turn it is
};

}  // namespace yamata
