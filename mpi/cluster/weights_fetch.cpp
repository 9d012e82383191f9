#include "mpi/cluster/weights_fetch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "node/checksum.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

ClusterError unasked() { return ClusterError("rank 0 has sent weights that were not asked for; do all ranks run the same yamata?"); }

}  // namespace

void WeightsFetch::begin() {
  begin_tasks({});
  awaited_files_.clear();
  if (!setup_.absent) return;
  for (const std::int32_t model : setup_.absent()) {
    awaited_files_.insert(model);
    transport_.send(0, Tag::kAskFiles, wire::encode(wire::AskFiles{model}));
  }
}

void WeightsFetch::begin(const wire::Start& plan) { begin_tasks(setup_.for_plan ? setup_.for_plan(plan) : std::vector<FetchTask>{}); }

void WeightsFetch::cancel() {
  awaited_files_.clear();
  try {
    begin_tasks({});
  } catch (const Error&) {  // of the disk: another error is being reported already
    tasks_.clear(), task_ = 0;
  }
}

void WeightsFetch::begin_tasks(std::vector<FetchTask> tasks) {
  if (task_ < tasks_.size()) tasks_[task_].copy->unlock();
  tasks_ = std::move(tasks);
  task_ = 0;
  step_ = Step::kLock;
  all_chunks_ = present_chunks_ = 0;
  outstanding_.clear();
  for (const FetchTask& task : tasks_) all_chunks_ += task.chunks.size();
}

void WeightsFetch::take(const Message& message) {
  ++progress_;
  if (message.tag == Tag::kModelFiles) return take_files(wire::decode_model_files(message.bytes));
  take_chunk(wire::decode_chunk(message.bytes));
}

void WeightsFetch::take_files(const wire::ModelFiles& files) {
  if (awaited_files_.erase(files.model) == 0) throw unasked();
  setup_.take_files(files.model, files.shape);
  if (awaited_files_.empty()) begin_tasks(setup_.before_hello());
}

/// A chunk that was damaged on its way is asked for again. TCP detects nearly all damage, so that a few damaged chunks mean broken memory.
void WeightsFetch::take_chunk(const wire::Chunk& chunk) {
  constexpr int kMostDamaged = 3;
  if (finished() || tasks_[task_].model != chunk.model || outstanding_.erase(chunk.chunk) == 0) throw unasked();
  const FetchTask& task = tasks_[task_];
  if (chunk.bytes.size() != task.copy->map().place(chunk.chunk).bytes || checksum(chunk.bytes) != chunk.checksum) {
    if (++damaged_ > kMostDamaged) {
      throw ClusterError(
          fmt::format("{} chunks of weights from rank 0 ({}) have arrived damaged; check the memory and the network of both "
                      "machines",
                      damaged_, transport_.host(0)));
    }
    absent_.push_back(chunk.chunk);
    return;
  }
  task.copy->put(chunk.chunk, chunk.bytes, chunk.checksum);
  bytes_ += chunk.bytes.size();
  ++present_chunks_;
}

bool WeightsFetch::advance() {
  if (!awaited_files_.empty() || finished()) return false;
  const FetchTask& task = tasks_[task_];
  bool anything = true;
  switch (step_) {
    case Step::kLock:
      anything = lock(*task.copy);
      break;
    case Step::kVerify:
      verify(task);
      break;
    case Step::kFetch:
      anything = ask(task);
      break;
  }
  if (anything) ++progress_;
  return anything;
}

/// Waits while another process of this machine fetches. What that one writes counts as progress of this one.
bool WeightsFetch::lock(fetch::FetchedModel& copy) {
  if (copy.try_lock()) {
    verified_ = asked_ = 0;
    absent_.clear();
    step_ = Step::kVerify;
    return true;
  }
  const std::int64_t changed_ns = copy.changed_ns();
  if (std::exchange(lock_changed_ns_, changed_ns) != changed_ns) ++progress_;
  return false;
}

/// A chunk a step, because the disk may be slow.
void WeightsFetch::verify(const FetchTask& task) {
  if (verified_ < task.chunks.size()) {
    const std::uint64_t chunk = task.chunks[verified_++];
    task.copy->verify(chunk) ? void(++present_chunks_) : absent_.push_back(chunk);
    return;
  }
  task.copy->allocate(absent_);
  step_ = Step::kFetch;
}

bool WeightsFetch::ask(const FetchTask& task) {
  bool anything = false;
  for (; asked_ < absent_.size() && outstanding_.size() < kMostOutstanding; anything = true) {
    const std::uint64_t chunk = absent_[asked_++];
    outstanding_.insert(chunk);
    transport_.send(0, Tag::kAskChunk, wire::encode(wire::AskChunk{task.model, chunk}));
  }
  if (asked_ < absent_.size() || !outstanding_.empty()) return anything;
  task.copy->unlock();
  ++task_;
  step_ = Step::kLock;
  return true;
}

}  // namespace yamata
