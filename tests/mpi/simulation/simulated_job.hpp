#pragma once
// A whole job in one thread: the program's own head, workers, engine and disconnect with table models. A seeded scheduler decides which
// rank acts next, and each action takes some time.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mpi/cluster/worker.hpp"
#include "mpi/engine/engine.hpp"
#include "mpi/transport/disconnect.hpp"
#include "tests/mpi/simulation/random_network.hpp"

namespace yamata::test {

struct JobShape {
  std::uint64_t seed = 1;
  int stages = 2;
  std::vector<int> drafters{};  ///< ranks of each drafter; 0: on the head, sharing its unit
  int idle = 0;                 ///< ranks without a part; they are the last ones
  bool probes_links = false;
  Strategy strategy = Strategy::kIterative;
  std::string policy = "best-first";
  int sequences = 0;  ///< most of the policy multi-sequence
  bool lookup = false;
  int slots = 1;              ///< texts at a time
  int kept_texts = 0;         ///< texts that stay in the cache; with a window or states, checkpoints
  int contexts = 0;           ///< cells for texts, as contexts; 0: one for each slot
  std::int32_t window = 0;    ///< of layers that have as few cells as possible; 0: there are no such layers
  bool states = false;        ///< layers have states, and as few of their tokens' inputs as possible
  bool draft_states = false;  ///< those of drafts
  double disagreement = 0.3;  ///< share of tokens that drafts guess wrongly
};

class SimulatedJob {
 public:
  static constexpr std::chrono::milliseconds kTimeout{500};
  static constexpr std::int32_t kContext = 64;

  explicit SimulatedJob(const JobShape& shape);

  /// Every rank begins a job: the workers say hello; the head waits until all have joined and loaded.
  void start();
  Head& head() { return *head_; }
  Engine& engine() { return *engine_; }
  Worker& worker(int rank) { return *ranks_.at(static_cast<std::size_t>(rank)).worker; }
  int size() const { return static_cast<int>(ranks_.size()); }
  /// The first rank of a drafter.
  int drafter_rank(std::size_t drafter) const { return plan_.pipelines.at(1 + drafter).ranks.front(); }

  /// Lets one rank act. Throws what head or worker throw.
  void act();
  /// Acts until `done`; throws if that takes too long.
  template <class Done>
  void until(Done done) {
    for (int i = 0; !done(); ++i) {
      if (i > 4'000'000) throw std::logic_error("no end");
      act();
    }
  }
  /// The rank does nothing any more, as if it were stopped or cut off.
  void stop_rank(int rank) { ranks_.at(static_cast<std::size_t>(rank)).stopped = true; }
  void continue_rank(int rank) { ranks_.at(static_cast<std::size_t>(rank)).stopped = false; }
  /// No rank acts for this time, as if the whole machine slept.
  void suspend(std::chrono::milliseconds time) { time_ns_ += std::chrono::nanoseconds(time).count(); }
  /// The rank gets a message that it cannot take, and tells the head that it has failed.
  void break_rank(int rank) { ranks_.front().transport->send(rank, Tag::kStart, wire::encode(plan_)); }
  /// From now on, the rank's launcher is gone.
  void end_launcher(int rank) { ranks_.at(static_cast<std::size_t>(rank)).launcher_gone = true; }

  /// The text that a target alone generates after this prompt.
  std::vector<std::int32_t> text_after(std::vector<std::int32_t> prompt, std::int32_t tokens, const SamplingParams& sampling = {}) const;
  std::vector<std::int32_t> random_prompt();

  /// All ranks that are not stopped disconnect; they are suspended for a while after the start. Returns for each whether all left together.
  std::map<int, bool> disconnect(std::chrono::milliseconds suspended = {});

  std::vector<std::string> warnings;
  std::atomic<bool> interrupted{false};
  DecodeOptions decode;

 private:
  struct Rank {
    std::unique_ptr<SimulatedTransport> transport;
    SteppedUnit unit;
    WorkerSetup setup;
    std::unique_ptr<Worker> worker;
    std::unique_ptr<Disconnect> parting;
    bool stopped = false;
    std::atomic<bool> launcher_gone{false};
  };
  void make_plan();
  bool has_states(const wire::PipelinePlan& pipeline) const { return pipeline.model == 0 ? shape_.states : shape_.draft_states; }
  void limit_cells(wire::PipelinePlan& pipeline, int rows, int guesses) const;
  void step(std::size_t rank);
  wire::Hello hello_of(int rank) const;
  StageFactory factory(int rank);

  const JobShape shape_;
  Random random_;
  std::int64_t time_ns_ = 0;
  const Clock::Override clock_;
  wire::Start plan_;
  Network network_;
  std::vector<Rank> ranks_;
  std::unique_ptr<Head> head_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace yamata::test
