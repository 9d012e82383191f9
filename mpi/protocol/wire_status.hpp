#pragma once
// The messages about the state of a rank: that it lives, has failed, shall end; its statistics.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mpi/protocol/byte_stream.hpp"
#include "mpi/protocol/trace.hpp"
#include "src/model/stage_model.hpp"

namespace yamata::wire {

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
  bool can_lose_drafters = false;        ///< from the head: it answers requests, and the job goes on without a drafter that is lost
  bool serving = false;                  ///< from the head: all ranks have loaded their parts
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
  double copy_wait_s = 0;                                        ///< part of busy_s in which its device waited for weights
  std::uint64_t copied_bytes = 0;                                ///< of weights that were copied to the device for its runs
  double draft_s = 0;                                            ///< part of busy_s that drafts and heads computed
  double candidates_s = 0;                                       ///< its drafters read logits and chose guesses; not in busy_s
  std::uint64_t device_peak_bytes = 0;                           ///< most of its devices' memory that was in use at a time
  std::uint64_t fetched_bytes = 0;                               ///< of weights that came from rank 0, since its machine lacks them
  std::uint64_t feature_bytes = 0;                               ///< part of bytes_sent: the target's hidden states for guess sources
};

Bytes encode(const Heartbeat&);
Bytes encode(const Failure&);
Bytes encode(const Report&);
Bytes encode_stop(std::int32_t code);

// Throw ClusterError if the bytes are not exactly one message of their kind.
Heartbeat decode_heartbeat(std::span<const std::byte>);
Failure decode_failure(std::span<const std::byte>);
Report decode_report(std::span<const std::byte>);
std::int32_t decode_stop(std::span<const std::byte>);

}  // namespace yamata::wire
