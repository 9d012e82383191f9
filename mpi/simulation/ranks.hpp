#pragma once
// The ranks of a cluster in one process, with transports and units that the caller schedules. Dispatcher, stages, drafters, pipeline and
// decoder are the program's own; only the model is a table. There is no liveness check here.
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "mpi/cluster/dispatcher.hpp"
#include "mpi/decoding/decoder.hpp"
#include "mpi/engine/engine.hpp"
#include "src/simulation/table_model.hpp"

namespace yamata::simulation {

/// A rank's transport and compute unit. Both outlive the ranks.
struct RankParts {
  Transport* transport = nullptr;
  TableUnit* unit = nullptr;
};

class Ranks {
 public:
  explicit Ranks(const std::vector<RankParts>& parts);

  /// Adds the target, with one shape per rank, from rank 0 on; the members of a group are consecutive.
  void add_target(const std::vector<TableShape>& stages);
  /// Adds a drafter whose first stage is on rank `first`; 0: on the head, with the same unit.
  void add_drafter(int first, const std::vector<TableShape>& stages, const DraftOptions& options, std::int32_t batch);
  /// Adds draft heads on rank `first`, together with a drafter or the head's stage, or alone. They read the target's features at these
  /// layers, the last of which is kOutputFeatures. Call it after adding the drafters.
  void add_draft_heads(int first, const TableShape& shape, std::vector<std::int32_t> feature_layers, const DraftOptions& options,
                       std::int32_t batch);
  /// Call it after adding the models: all load, and the head begins to decode a text. Call it again for another text when one has finished.
  void begin(const std::vector<std::int32_t>& prompt, const DecodeOptions& options, Decoder::Choose choose, Decoder::OnToken on_token);
  /// Instead of begin: all load, and an engine on the head serves requests with these options.
  Engine& serve(const DecodeOptions& options);

  /// One step of a rank: it receives the arrived messages and advances. True if anything happened. A dead rank only receives.
  bool step(std::size_t rank);
  /// Drafter `index` dies with all its ranks; if `noticed`, the head is told.
  void kill_drafter(std::size_t index, bool noticed = true);
  bool dead(std::size_t rank) const { return ranks_[rank].dead; }

  /// Of the text that has begun.
  Decoder& decoder() { return *decoder_; }
  /// The target's stage on a rank that has one.
  Stage& target_stage(std::size_t rank) { return *ranks_.at(rank).dispatcher->target_stage(); }
  Pipeline& target() { return *ranks_.front().dispatcher->target(); }
  const std::vector<TableModel*>& target_models() const { return target_models_; }
  std::function<void(std::size_t rank, Message& message)> on_message;  ///< called with every message before it is handled; may change it
  /// Called before the first text; may add sources to drafters and lookup, such as a datastore
  std::function<void(GuessSources& sources)> add_sources;

 private:
  struct Rank {
    RankParts parts;
    std::unique_ptr<Dispatcher> dispatcher;
    bool dead = false;
  };
  struct DrafterRanks {
    int first, count;
    std::int64_t one_row_ns;
  };
  void add(int model, int first, const std::vector<TableShape>& stages);
  void build();
  GuessSources make_sources(const DecodeOptions& options);
  void dispatch(std::size_t rank, Message message);

  std::vector<Rank> ranks_;
  std::vector<DrafterRanks> drafters_;
  wire::Start plan_;
  std::vector<std::vector<TableShape>> shapes_;              // per pipeline of the plan, per stage
  std::map<int, std::vector<std::int32_t>> feature_layers_;  // of heads, by their number in the plan
  std::int64_t target_row_ns_ = 0;
  std::vector<TableModel*> target_models_;
  std::unique_ptr<GuessSources> sources_;  // of texts that have begun
  std::unique_ptr<Target> together_;       // of these texts
  std::uint64_t requests_ = 0;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace yamata::simulation
