#pragma once
// The ranks of a cluster in one process, over transports and units that somebody else schedules: the program's own dispatcher,
// stages, drafters, pipeline and decoder; only the model is a table. Who is alive nobody watches here.
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "mpi/cluster/dispatcher.hpp"
#include "mpi/decoding/decoder.hpp"
#include "src/simulation/table_model.hpp"

namespace yamata::simulation {

/// Where a rank sits. Both outlive the ranks.
struct RankParts {
  Transport* transport = nullptr;
  TableUnit* unit = nullptr;
};

class Ranks {
 public:
  explicit Ranks(const std::vector<RankParts>& parts);

  /// The target, a shape per rank, from rank 0 on; the members of a group after each other.
  void add_target(const std::vector<TableShape>& stages);
  /// A drafter with its first stage on rank `first`; 0: on the head, sharing its unit.
  void add_drafter(int first, const std::vector<TableShape>& stages, const DraftOptions& options, std::int32_t batch);
  /// Heads on rank `first`, beside a drafter or the head's stage, or alone; they read the target's features at these layers, the last of
  /// which are kOutputFeatures. After the drafters.
  void add_heads(int first, const TableShape& shape, std::vector<std::int32_t> feature_layers);
  /// After the models: all load, and the head begins to decode a text, the first one or, once that has finished, another.
  void begin(const std::vector<std::int32_t>& prompt, const DecodeOptions& options, Decoder::Choose choose, Decoder::OnToken on_token);

  /// What a rank does between two looks at its transport: takes the messages that have arrived and goes on. True if anything
  /// happened. A dead one only takes.
  bool step(std::size_t rank);
  /// Drafter `index` dies, and with it all its ranks; the decoder is told where it is `noticed`.
  void kill_drafter(std::size_t index, bool noticed = true);
  bool dead(std::size_t rank) const { return ranks_[rank].dead; }

  Decoder& decoder() { return *decoder_; }
  const GuessSources& sources() const { return *sources_; }
  Pipeline& target() { return *ranks_.front().dispatcher->target(); }
  const std::vector<TableModel*>& target_models() const { return target_models_; }
  std::function<void(std::size_t rank, Message& message)> on_message;  ///< told of every message before it is taken; may change it
  std::function<void(GuessSources& sources)> add_sources;              ///< may add to drafters and lookup, before the first text

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
  void make_sources(bool lookup);
  void dispatch(std::size_t rank, Message message);

  std::vector<Rank> ranks_;
  std::vector<DrafterRanks> drafters_;
  wire::Start plan_;
  std::vector<std::vector<TableShape>> shapes_;              // per pipeline of the plan, per stage
  std::map<int, std::vector<std::int32_t>> feature_layers_;  // of heads, by their number in the plan
  std::int64_t target_row_ns_ = 0;
  std::vector<TableModel*> target_models_;
  std::unique_ptr<GuessSources> sources_;
  std::uint64_t requests_ = 0;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace yamata::simulation
