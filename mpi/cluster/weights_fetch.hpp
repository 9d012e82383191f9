#pragma once
// A rank fetches what its machine lacks of the models' files: before its hello their description, after the plan its own weights.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mpi/cluster/weights_server.hpp"
#include "src/fetch/fetched_model.hpp"

namespace yamata {

/// Chunks of a model that this rank needs.
struct FetchTask {
  std::int32_t model = 0;
  std::shared_ptr<fetch::FetchedModel> copy;
  std::vector<std::uint64_t> chunks;  ///< ascending
};

/// What fetching needs to know of a job. Filled by the caller, which knows the command line and the machine.
struct FetchSetup {
  /// Begins the next job; the models that this rank must open and whose files its machine lacks. Empty: this rank fetches nothing.
  std::function<std::vector<std::int32_t>()> absent;
  /// The files of one of them.
  std::function<void(std::int32_t model, fetch::ModelShape shape)> take_files;
  /// After all of them have come: what is needed in order to open the models.
  std::function<std::vector<FetchTask>()> before_hello;
  /// What this rank's part of a plan reads.
  std::function<std::vector<FetchTask>(const wire::Start& plan)> for_plan;
};

/// A state machine, as all of mpi/: begin(), then take() and advance() until finished(). A second begin starts anew. Members throw
/// ModelError if the machine cannot keep the weights, and ClusterError for damaged messages.
class WeightsFetch {
 public:
  /// The arguments outlive this.
  WeightsFetch(Transport& transport, const FetchSetup& setup) : transport_(transport), setup_(setup) {}

  void begin();
  void begin(const wire::Start& plan);
  /// A message of tag kModelFiles or kChunk.
  void take(const Message& message);
  /// Does a step; true if anything happened.
  bool advance();
  bool finished() const { return awaited_files_.empty() && task_ == tasks_.size(); }
  /// Gives up what is not finished.
  void cancel();

  /// Grows with every step.
  std::uint64_t progress() const { return progress_; }
  /// Bytes that have arrived, of all jobs of this object.
  std::uint64_t bytes() const { return bytes_; }
  /// Share of the chunks of all tasks that are present; 1: there are no tasks.
  bool has_tasks() const { return all_chunks_ > 0; }
  double share() const { return all_chunks_ == 0 ? 1 : static_cast<double>(present_chunks_) / static_cast<double>(all_chunks_); }

 private:
  enum class Step { kLock, kVerify, kFetch };
  void begin_tasks(std::vector<FetchTask> tasks);
  void take_files(const wire::ModelFiles& files);
  void take_chunk(const wire::Chunk& chunk);
  bool lock(fetch::FetchedModel& copy);
  void verify(const FetchTask& task);
  bool ask(const FetchTask& task);

  Transport& transport_;
  const FetchSetup& setup_;
  std::set<std::int32_t> awaited_files_;
  std::vector<FetchTask> tasks_;
  std::size_t task_ = 0;  // the first that is not finished
  Step step_ = Step::kLock;
  std::size_t verified_ = 0;             // of the task's chunks
  std::vector<std::uint64_t> absent_;    // chunks of the task
  std::size_t asked_ = 0;                // of these
  std::set<std::uint64_t> outstanding_;  // asked for and not received
  int damaged_ = 0;                      // chunks that arrived with a wrong checksum
  std::int64_t lock_changed_ns_ = 0;     // when the process that writes has last written
  std::uint64_t progress_ = 0, bytes_ = 0, all_chunks_ = 0, present_chunks_ = 0;
};

}  // namespace yamata
