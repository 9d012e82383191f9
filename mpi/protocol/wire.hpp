#pragma once
// The wire protocol: every payload, who sends it, who receives it, in what order. Little-endian machines only.
//
//   tag          from -> to           order and meaning
//   kHello       rank -> head         once a job, first
//   kMeasure     head -> rank         after every kHello, where speeds are measured; one rank of a machine after another; answered with kMeasured
//   kProbe       head <-> rank        between hellos and plan, where links are measured; answered at once, without the padding
//   kRehearse    head -> rank         after the probes, to the members of a group; answered with kRehearsed before the next
//   kStart       head -> rank         once a job, after every kHello
//   kRecord      stage k -> k+1       the one ordered stream: runs and cache operations; forwarded before it is acted on
//   kActivations stage k -> k+1       one per run, in the order of the runs; with the features, asked for, of the layers so far
//                                     of both: from the stage's leader to every rank of the next; records also within the first stage
//   kLogits      last stage -> head   one per run and rank, in order; logits and features of the rows asked for, none where there are no
//                                     such; of a group each rank sends its part of the vocabulary, the first the features
//   kCancel      head -> stage        at any time, beside the stream: run ids; permits skipping, commands nothing
//   kDraft...    as the four above, within the ranks of a draft model, whose first rank leads them
//   kCommit      head -> drafter      the text's next tokens, in order, or a new text
//   kGuesses     drafter -> head      whenever there are some
//   kHeartbeat   rank <-> head        several per deadline
//   kFailure     rank -> head         the rank has failed and waits for kStop
//   kStop        head -> rank         end; answered with kReport
//   kAsk         head -> rank         at any time; answered with kReport
//   kReport      rank -> head         statistics of the job so far
//   kNextJob     head -> rank         when no run is out: the job is over; answered with kHello for the next
//   kDisconnect    rank <-> head        last message
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

inline constexpr std::uint32_t kProtocolVersion = 23;
using Bytes = std::vector<std::byte>;

/// How fast a rank is.
struct Measured {
  double ns_per_byte = 0;                 ///< wall time per byte of the target's weights; 0: not measured
  std::vector<double> width_multiples{};  ///< what runs of kProbedWidths tokens take, in runs of one; empty: not measured
};

struct Hello {
  std::uint32_t protocol = kProtocolVersion;
  std::string version, host, isa;
  std::vector<std::uint64_t> fingerprints{};  ///< of the job's models: the target, then the drafts; 0: it has not opened this one
  std::uint64_t available_bytes = 0;
  std::int32_t threads = 0;
  std::int32_t model = 0;                 ///< the one it must have: 0 the target, 1, 2, ... the drafts
  std::uint64_t machine = 0;              ///< the same for ranks of one machine, whatever their hosts are called; 0: not known
  std::string cpu{};                      ///< its processors' name; ranks with equally many threads of one name are equally fast
  std::string cpu_group{};                ///< control group whose processors it shares with others of its host
  std::int32_t logical_cpus = 0;          ///< of its host, that it may use
  std::int64_t threads_measured_s = 0;    ///< when `threads` proved fastest, in seconds of the calendar clock; 0: not measured
  std::string device{};                   ///< what it computes on, as --units has it, where that is not cores alone
  std::int32_t device_layers = 0;         ///< so many of its first layers of the target a device has whole
  std::int32_t device_is_unified = 0;     ///< 1: in the host's memory, else in its own
  std::uint64_t device_bytes = 0;         ///< which has so much free
  std::string no_device{};                ///< why it has none, though it was to have some layers
  Measured measured{};                    ///< not sent with it: the head adds what the rank measures later

  /// Whether all that it computes is in the memory of its devices, as far as they have one; then available_bytes is theirs.
  bool lies_on_devices() const { return !device.empty() && device_layers == 0; }
};

/// Whose memory a rank takes: its machine's, by the name of that, or its devices'.
inline std::string memory_of(const std::vector<Hello>& hellos, std::size_t rank) {
  const Hello& hello = hellos[rank];
  return hello.lies_on_devices() ? hello.host + ": devices of rank " + std::to_string(rank) : hello.host;
}

/// A message whose way is timed.
struct Probe {
  std::uint32_t number = 0;          ///< counts the probes of one rank
  std::vector<std::byte> padding{};  ///< what makes it long
};

/// Layers of the target that some ranks are to share, to see what they take.
struct Rehearse {
  std::vector<std::int32_t> ranks;  ///< ascending
  std::vector<double> shares;       ///< of its columns, per rank
  std::int32_t layer = 0;   ///< the first
  std::int32_t layers = 1;  ///< how many
  std::int32_t runs = 1;    ///< of one token, that count
};

/// What one of them says of it: the means of its runs.
struct Rehearsed {
  double computing_s = 0;  ///< of all these layers
  double meeting_s = 0;    ///< of one meeting, from when this rank came to it
};

/// Which weights of a rank are packed for its compute units as they are loaded.
enum class Packed : std::uint8_t {
  kNone,
  kAll,
  kFirstLayers  ///< those that a device of its has whole
};

/// The ranks of one model, in the order of its stages. Neighbours with the same layers share them: they are a group.
struct PipelinePlan {
  std::int32_t model = 0;           ///< 0: the target; 1, 2, ...: the drafters' models
  std::vector<std::int32_t> ranks;  ///< the first leads
  std::vector<LayerRange> layers;   ///< per rank
  std::int32_t cells = 0, sequences = 1;
  std::vector<std::uint8_t> packed{};  ///< per rank: Packed
  std::vector<double> shares{};        ///< per rank: of the columns of its layers, beside those of its group; empty: no rank is in a group
  std::int32_t window_cells = 0;       ///< as ContextOptions has them

  /// Where a rank is among these, if it is.
  std::optional<std::size_t> place_of(int rank) const {
    const auto found = std::find(ranks.begin(), ranks.end(), rank);
    if (found == ranks.end()) return std::nullopt;
    return static_cast<std::size_t>(found - ranks.begin());
  }
  /// The ranks of each stage.
  std::vector<std::vector<int>> stages() const;
  /// What the rank at this place holds of its stage's layers.
  GroupMember member(std::size_t place) const;
};

struct Start {
  std::vector<PipelinePlan> pipelines;  ///< the target's, then one per drafter
  CacheTypes cache_types;
  std::int32_t batch = 64;  ///< most prompt tokens of a run
  bool trace = false;
  std::string head_host;
  std::int64_t head_time_us = 0;  ///< of the head's clock, when this was sent
  DraftOptions draft;
};

/// The text has grown. Drafters go on from here.
struct Commit {
  std::uint64_t request = 0;  ///< whose text it is; another one than before: that text is over, this one begins at position 0
  std::uint64_t epoch = 0;    ///< counts the commits of the request
  std::int32_t position = 0;  ///< of the first token
  std::vector<std::int32_t> tokens;
  std::int32_t min_drafts = 0;  ///< guesses to be complete with, where somebody waits for them; 0: go on without end
  float least = 0;              ///< least path probability of a node for which an evaluation of the draft is worth its time
  bool retell = false;          ///< all guesses told before are forgotten: tell those anew that still stand
  std::int32_t model = 1;       ///< which of the rank's drafts is meant, by its number in the plan
  /// For heads: the target's features of the token before each of these, but for the text's first.
  std::vector<float> features{};
};

struct Guess {
  std::uint32_t id = 0, parent = 0;  ///< the drafter's own, ascending
  std::int32_t token = 0;
  float probability = 0;
};

struct Guesses {
  std::uint64_t request = 0;  ///< whose text they continue
  std::uint64_t epoch = 0;    ///< the last commit that the drafter knew of
  std::uint32_t root = 0;     ///< its id for the last token of the text
  std::int32_t root_position = 0;
  bool complete = false;    ///< it has as many as the commit asked for, or no more
  double evaluation_s = 0;  ///< what an evaluation of the draft takes; 0: not known yet
  std::int32_t model = 1;   ///< as in Commit
  std::vector<Guess> guesses;
};

/// One entry of the ordered stream: cache operations, then a run if there are tokens.
struct Record {
  std::vector<CacheOperation> operations;
  std::uint64_t run = 0;  ///< ids ascend
  std::vector<std::int32_t> tokens;
  std::vector<Placement> placements;         ///< one per token
  std::vector<std::int32_t> logit_rows;      ///< rows whose logits are asked for
  std::int32_t best = 0;                     ///< of each such row only so many, the highest; 0: those of the whole vocabulary
  std::vector<std::int32_t> feature_rows;    ///< rows whose features are asked for: hidden states of some layers
  std::vector<std::int32_t> feature_layers;  ///< which: as in StageBatch
  std::vector<float> features;               ///< that the tokens come with, as in StageBatch
  bool has_run() const { return !tokens.empty(); }
  /// Features of the layers below `layer`, in rows of floats.
  std::size_t features_below(std::int64_t layer) const {
    const auto below = std::count_if(feature_layers.begin(), feature_layers.end(), [&](std::int32_t l) { return l < layer; });
    return feature_rows.size() * static_cast<std::size_t>(below);
  }
};

/// Rows of floats that belong to a run: activations or logits, and features; none where the run was cancelled. Read in place.
struct Rows {
  std::uint64_t run = 0;
  bool skipped = false;
  std::span<const float> values;
  std::span<const std::int32_t> tokens{};  ///< where only the best logits were asked for: whose each is; -1: fewer are usable
  std::uint32_t vocabulary = 0;            ///< tokens that there are, then
  std::span<const float> features{};       ///< [feature layers so far][feature_rows][dim]
};

enum class Activity : std::uint8_t { kIdle, kComputing, kAwaitingActivations };

struct Heartbeat {
  std::uint64_t progress = 0;  ///< grows with every operation and run that ends
  Activity activity = Activity::kIdle;
  std::uint16_t loaded_permille = 0;  ///< of this stage's weights
  std::int32_t awaits = -1;           ///< the rank of its group whose part of a layer it has been waiting for, for long; -1: none
};

struct Failure {
  std::int32_t code = 0;
  std::string text;
};

struct Report {
  std::string host, role, isa, device;
  LayerRange layers;
  std::int32_t threads = 0;  ///< that compute
  double busy_s = 0, wait_s = 0;
  double wait_cpu_s = 0;  ///< processor time of the control thread while it waited
  std::uint64_t bytes_sent = 0;
  std::uint64_t rss_bytes = 0;                                   ///< memory of its own
  std::uint64_t mapped_bytes = 0;                                ///< of the model file, touched
  std::uint64_t runs = 0, runs_skipped = 0, tokens_skipped = 0;  ///< of this stage; skipped: cancelled before its end
  std::vector<TraceEvent> events;                                ///< in the head's time
  std::vector<double> run_s{};                                   ///< what a run of 1, 2, ... tokens takes; 0: none was computed
  std::vector<double> draft_run_s{};                             ///< the same of a draft that took turns with this stage
  double share = 1;                                              ///< of the columns of its layers; below 1 in a group
  double exchange_s = 0;                                         ///< of busy_s, spent in meetings of its group
  std::uint64_t feature_bytes = 0;                               ///< of bytes_sent: the target's hidden states that guesses are made from
};

Bytes encode(const Hello&);
Bytes encode(const Measured&);
Bytes encode(const Probe&);
Bytes encode(const Rehearse&);
Bytes encode(const Rehearsed&);
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

// Each throws ClusterError where the bytes are not a whole message of its kind.
Hello decode_hello(std::span<const std::byte>);
Measured decode_measured(std::span<const std::byte>);
Probe decode_probe(std::span<const std::byte>);
Rehearse decode_rehearse(std::span<const std::byte>);
Rehearsed decode_rehearsed(std::span<const std::byte>);
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
