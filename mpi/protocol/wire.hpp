#pragma once
// The wire protocol: every payload, its sender, its receiver, and its order. Little-endian machines only.
//
//   tag          from -> to           order and meaning
//   kHello       rank -> head         once per job, first
//   kMeasure     head -> rank         after every kHello, if speeds are measured; ranks of one machine in turn; answered with kMeasured
//   kProbe       head <-> rank        between hellos and plan, if links are measured; answered at once, without the padding
//   kBenchmark    head -> rank         after the probes, to the members of a group; answered with kBenchmarkResult before the next
//   kStart       head -> rank         once per job, after every kHello
//   kRecord      stage k -> k+1       the one ordered stream: runs and cache operations; forwarded before it is executed
//   kActivations stage k -> k+1       one per run, in the order of the runs; with the requested features of all layers so far
//                                     both: from the stage's leader to every rank of the next; records also within the first stage
//   kLogits      last stage -> head   one per run and rank, in order; logits and features of the requested rows, empty if there are none;
//                                     in a group, each rank sends its part of the vocabulary, and the first rank also the features
//   kCancel      head -> stage        at any time, outside the stream: run ids that the stage may skip, but need not
//   kDraft...    like the four above, within the ranks of a draft model, whose first rank leads them
//   kCommit      head -> drafter      the text's next tokens, in order, or a new text
//   kGuesses     drafter -> head      whenever there are some
//   kHeartbeat   rank <-> head        several per timeout; between all ranks while one is silent or no run comes on
//   kFailure     rank -> head         the rank has failed and waits for kStop
//   kStop        head -> rank         end; answered with kReport
//   kAsk         head -> rank         at any time; answered with kReport
//   kReport      rank -> head         statistics of the job so far
//   kLeftOut     head -> rank         to a drafter or an idle rank: the job goes on without it, and it hears nothing more from the head
//   kNextJob     head -> rank         while no run is in flight: the job is over; answered with kHello for the next
//   kDisconnect  rank <-> head        last message
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/cache_operation.hpp"
#include "cache/kv_store.hpp"
#include "mpi/protocol/trace.hpp"
#include "src/model/stage_model.hpp"
#include "src/speculation/draft_options.hpp"

namespace yamata::wire {

inline constexpr std::uint32_t kProtocolVersion = 27;
using Bytes = std::vector<std::byte>;

/// The measured speed of a rank.
struct Measured {
  double ns_per_byte = 0;                 ///< wall time per byte of the target's weights; 0: not measured
  std::vector<double> width_multiples{};  ///< time of runs of kProbedWidths tokens, relative to a run of one token; empty: not measured
};

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
  std::int32_t device_layers = 0;       ///< number of the target's first layers that a device computes alone
  std::int32_t device_is_unified = 0;   ///< 1: the device uses the host's memory; 0: memory of its own
  std::uint64_t device_bytes = 0;       ///< free bytes of the device
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

/// Which weights of a rank are packed for its compute units as they are loaded.
enum class Packed : std::uint8_t {
  kNone,
  kAll,
  kFirstLayers  ///< the layers that one of its devices computes alone
};

/// The ranks of one model, in the order of its stages. Adjacent ranks with the same layers share them: they are a group.
struct PipelinePlan {
  std::int32_t model = 0;           ///< 0: the target; 1, 2, ...: the drafters' models
  std::vector<std::int32_t> ranks;  ///< the first leads
  std::vector<LayerRange> layers;   ///< per rank
  std::int32_t cells = 0, sequences = 1;
  std::vector<std::uint8_t> packed{};  ///< per rank: Packed
  std::vector<double> shares{};        ///< per rank: share of its layers' columns, within its group; empty: no groups
  std::int32_t window_cells = 0;       ///< as in ContextOptions

  /// Index of a rank in `ranks`, if it is there.
  std::optional<std::size_t> place_of(int rank) const {
    const auto found = std::find(ranks.begin(), ranks.end(), rank);
    if (found == ranks.end()) return std::nullopt;
    return static_cast<std::size_t>(found - ranks.begin());
  }
  /// The ranks of each stage.
  std::vector<std::vector<int>> stages() const;
  /// The part of its stage's layers that the rank at this index holds.
  GroupMember member(std::size_t place) const;
};

struct Start {
  std::vector<PipelinePlan> pipelines;  ///< the target's, then one per drafter
  CacheTypes cache_types;
  std::int32_t batch = 64;  ///< most prompt tokens per run
  bool trace = false;
  std::string head_host;
  std::int64_t head_time_us = 0;  ///< the head's clock when this was sent
  DraftOptions draft;
};

/// New tokens of the text, from which the drafters continue.
struct Commit {
  std::uint64_t request = 0;  ///< whose text it is; if it changes, the previous text is over, and this one begins at position 0
  std::uint64_t epoch = 0;    ///< counts the commits of the request
  std::int32_t position = 0;  ///< of the first token
  std::vector<std::int32_t> tokens;
  std::int32_t min_drafts = 0;     ///< if the head waits for guesses: number of guesses that make the answer complete; 0: guess without end
  float min_path_probability = 0;  ///< least path probability of a node that is worth an evaluation of the draft
  bool resend = false;             ///< all guesses sent before are forgotten: send those that are still valid again
  std::int32_t model = 1;          ///< which of the rank's drafts is meant: its model number in the plan
  /// For heads: the target's features of the token before each of these tokens; none for the text's first token.
  std::vector<float> features{};
};

struct Guess {
  std::uint32_t id = 0, parent = 0;  ///< the drafter's own ids, ascending
  std::int32_t token = 0;
  float probability = 0;
};

struct Guesses {
  std::uint64_t request = 0;  ///< whose text they continue
  std::uint64_t epoch = 0;    ///< the last commit that the drafter knew
  std::uint32_t root = 0;     ///< the drafter's id of the last token of the text
  std::int32_t root_position = 0;
  bool complete = false;    ///< it has as many guesses as the commit asked for, or can make no more
  double evaluation_s = 0;  ///< time of one evaluation of the draft; 0: unknown
  std::int32_t model = 1;   ///< as in Commit
  std::vector<Guess> guesses;
};

/// One entry of the ordered stream: cache operations, then a run if there are tokens.
struct Record {
  std::vector<CacheOperation> operations;
  std::uint64_t run = 0;  ///< ascending
  std::vector<std::int32_t> tokens;
  std::vector<Placement> placements;         ///< one per token
  std::vector<std::int32_t> logit_rows;      ///< rows whose logits are requested
  std::int32_t best = 0;                     ///< only this many of the highest logits per row; 0: those of the whole vocabulary
  bool sums = false;                         ///< with them, Rows::sums
  std::vector<std::int32_t> feature_rows;    ///< rows whose features are requested: hidden states of some layers
  std::vector<std::int32_t> feature_layers;  ///< which layers: as in StageBatch
  std::vector<float> features;               ///< that come with the tokens, as in StageBatch
  bool has_run() const { return !tokens.empty(); }
  /// Number of feature rows of the layers below `layer`.
  std::size_t features_below(std::int64_t layer) const {
    const auto below = std::count_if(feature_layers.begin(), feature_layers.end(), [&](std::int32_t l) { return l < layer; });
    return feature_rows.size() * static_cast<std::size_t>(below);
  }
};

/// Rows of floats of a run: activations or logits, and features; empty if the run was cancelled. Points into the message.
struct Rows {
  std::uint64_t run = 0;
  bool skipped = false;
  std::span<const float> values;
  std::span<const std::int32_t> tokens{};  ///< if only the best logits were requested: their token ids; -1: no more usable tokens
  std::uint32_t vocabulary = 0;            ///< then the number of tokens in the vocabulary
  std::span<const float> sums{};           ///< then, if requested: per row, log of the sum of exp(logit) of the sender's tokens
  std::span<const float> features{};       ///< [feature layers so far][feature_rows][dim]
};

enum class Activity : std::uint8_t { kIdle, kComputing, kAwaitingActivations };

struct Heartbeat {
  std::uint64_t progress = 0;  ///< grows with every finished operation and run
  Activity activity = Activity::kIdle;
  std::uint16_t loaded_permille = 0;  ///< of this stage's weights
  std::int32_t awaits = -1;           ///< the rank of its group for whose columns it has been waiting for long; -1: none
  /// From the head: some rank is silent, or no run comes on, so all ranks shall send each other heartbeats. Between other ranks: the sender
  /// does not hear the head, and asks whether this rank lives.
  bool asks = false;
  std::vector<std::int32_t> hears{};     ///< the ranks that the sender has heard lately
  std::vector<std::int32_t> receives{};  ///< the ranks of which a large message is arriving at the sender
};

struct Failure {
  std::int32_t code = 0;
  std::string text;
  bool ends_job = false;  ///< even if the job could do without the rank
};

struct Report {
  std::string host, role, isa, device;
  LayerRange layers;
  std::int32_t threads = 0;  ///< that compute
  double busy_s = 0, wait_s = 0;
  double wait_cpu_s = 0;  ///< processor time that the control thread used while it waited
  std::uint64_t bytes_sent = 0;
  std::uint64_t rss_bytes = 0;                                   ///< its own memory, without mapped files
  std::uint64_t mapped_bytes = 0;                                ///< pages of the model file in memory
  std::uint64_t runs = 0, runs_skipped = 0, tokens_skipped = 0;  ///< of this stage; skipped: cancelled before their end
  std::vector<TraceEvent> events;                                ///< in the head's time
  std::vector<double> run_s{};                                   ///< time of a run of 1, 2, ... tokens; 0: none was computed
  std::vector<double> draft_run_s{};                             ///< the same of a draft that shares this stage's unit
  double share = 1;                                              ///< of its layers' columns; below 1 in a group
  double exchange_s = 0;                                         ///< part of busy_s spent in exchanges of its group
  std::uint64_t feature_bytes = 0;                               ///< part of bytes_sent: the target's hidden states for guess sources
};

Bytes encode(const Hello&);
Bytes encode(const Measured&);
Bytes encode(const Probe&);
Bytes encode(const BenchmarkRequest&);
Bytes encode(const BenchmarkResult&);
Bytes encode(const Start&);
Bytes encode(const Record&);
Bytes encode(const Rows&);
Bytes encode(const Commit&);
Bytes encode(const Guesses&);
Bytes encode_cancel(std::span<const std::uint64_t> runs);
Bytes encode(const Heartbeat&);
Bytes encode(const Failure&);
Bytes encode(const Report&);
Bytes encode_stop(std::int32_t code);

// Each throws ClusterError if the bytes are not exactly one message of its kind.
Hello decode_hello(std::span<const std::byte>);
Measured decode_measured(std::span<const std::byte>);
Probe decode_probe(std::span<const std::byte>);
BenchmarkRequest decode_benchmark_request(std::span<const std::byte>);
BenchmarkResult decode_benchmark_result(std::span<const std::byte>);
Start decode_start(std::span<const std::byte>);
Record decode_record(std::span<const std::byte>);
Rows decode_rows(std::span<const std::byte>);  ///< points into the bytes
Commit decode_commit(std::span<const std::byte>);
Guesses decode_guesses(std::span<const std::byte>);
std::vector<std::uint64_t> decode_cancel(std::span<const std::byte>);
Heartbeat decode_heartbeat(std::span<const std::byte>);
Failure decode_failure(std::span<const std::byte>);
Report decode_report(std::span<const std::byte>);
std::int32_t decode_stop(std::span<const std::byte>);

}  // namespace yamata::wire
