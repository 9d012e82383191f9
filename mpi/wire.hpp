#pragma once
// The wire protocol: every payload, who sends it, who receives it, in what order. Little-endian machines only.
//
//   tag          from -> to           order and meaning
//   kHello       rank -> head         once, first
//   kStart       head -> rank         once, after every kHello
//   kRecord      stage k -> k+1       the one ordered stream: runs and cache operations; forwarded before it is acted on
//   kActivations stage k -> k+1       one per run, in the order of the runs
//   kLogits      last stage -> head   one per run, in order; no rows where none were asked for
//   kHeartbeat   rank <-> head        several per deadline
//   kFailure     rank -> head         the rank has failed and waits for kStop
//   kStop        head -> rank         end; answered with kReport
//   kReport      rank -> head         last message of a rank
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cache/cell_table.hpp"
#include "cache/kv_store.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata::wire {

inline constexpr std::uint32_t kProtocolVersion = 2;
using Bytes = std::vector<std::byte>;

struct Hello {
  std::uint32_t protocol = kProtocolVersion;
  std::string version, host, isa;
  std::uint64_t fingerprint = 0;  ///< of the model file
  std::uint64_t available_bytes = 0;
  std::int32_t threads = 0;
};

struct Start {
  std::vector<LayerRange> layers;  ///< per rank
  std::int32_t cells = 0, sequences = 1;
  CacheType cache_type = CacheType::kF16;
};

enum class RecordKind : std::uint8_t { kRun, kCopy, kKeep, kRemove, kClear };

/// One entry of the ordered stream.
struct Record {
  RecordKind kind = RecordKind::kRun;
  std::uint64_t run = 0;                 // kRun, ids ascend
  std::vector<std::int32_t> tokens;      // kRun
  std::vector<Placement> placements;     // kRun, one per token
  std::vector<std::int32_t> wanted;      // kRun: rows whose logits are asked for
  std::int32_t from = 0;                 // kCopy
  SequenceRange sequences;               // kCopy (to), kKeep, kRemove
  PositionRange positions;               // likewise
};

/// Rows of floats that belong to a run: activations or logits. Read in place.
struct Rows {
  std::uint64_t run = 0;
  std::span<const float> values;
};

enum class Activity : std::uint8_t { kIdle, kComputing, kAwaitingActivations };

struct Heartbeat {
  std::uint64_t progress = 0;  ///< grows with every operation and run that ends
  Activity activity = Activity::kIdle;
  std::uint16_t loaded_permille = 0;  ///< of this stage's weights
};

struct Failure {
  std::int32_t code = 0;
  std::string text;
};

struct Report {
  std::string host, role, isa, device;
  LayerRange layers;
  double busy_s = 0, wait_s = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t rss_bytes = 0;     ///< memory of its own
  std::uint64_t mapped_bytes = 0;  ///< of the model file, touched
};

Bytes encode(const Hello&);
Bytes encode(const Start&);
Bytes encode(const Record&);
Bytes encode(const Rows&);
Bytes encode(const Heartbeat&);
Bytes encode(const Failure&);
Bytes encode(const Report&);
Bytes encode_stop(std::int32_t code);

// Each throws ClusterError where the bytes are not a whole message of its kind.
Hello decode_hello(std::span<const std::byte>);
Start decode_start(std::span<const std::byte>);
Record decode_record(std::span<const std::byte>);
Rows decode_rows(std::span<const std::byte>);  ///< points into the bytes
Heartbeat decode_heartbeat(std::span<const std::byte>);
Failure decode_failure(std::span<const std::byte>);
Report decode_report(std::span<const std::byte>);
std::int32_t decode_stop(std::span<const std::byte>);

}  // namespace yamata::wire
