#pragma once
// Real models on ranks that are threads of one process.
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "mpi/cluster/head.hpp"
#include "mpi/cluster/worker.hpp"
#include "mpi/transport/local_transport.hpp"
#include "node/cpu/cpu_unit.hpp"
#include "src/model/model_file.hpp"
#include "src/model/transformer_stage.hpp"
#include "tests/paths.hpp"

namespace yamata::test {

inline const std::array<std::string, 2> kModels{test::source_path("/models/tales-target-q8_0.gguf"),
                                                test::source_path("/models/tales-draft-q8_0.gguf")};

/// The hello of a rank that reads the first `models` of these models.
inline wire::Hello hello_of(int rank, std::size_t models = 1) {
  wire::Hello hello;
  hello.version = "test";
  hello.host = "host" + std::to_string(rank);
  hello.fingerprints.assign(models, 42);
  hello.available_bytes = 1ull << 33;
  return hello;
}

/// The models, opened, and the unit of one rank.
class LocalRank {
 public:
  explicit LocalRank(std::size_t models = 1) : unit_({-1}, cpu::choose_isa()) {
    for (std::size_t m = 0; m < models; ++m) models_.push_back(ModelFile::open(kModels[m]));
  }
  const ModelFile& model(std::size_t m = 0) const { return models_[m]; }
  StageFactory factory() {
    return [this](const wire::PipelinePlan& plan, std::size_t place, CacheTypes types,
                  const GroupMember& group) -> std::unique_ptr<StageModel> {
      const ModelFile& file = model(static_cast<std::size_t>(plan.model));
      return std::make_unique<TransformerStage>(file.file, file.h, plan.layers[place],
                                                ContextOptions{plan.cells, plan.sequences, types, true, group}, unit_);
    };
  }

 private:
  std::vector<ModelFile> models_;
  CpuUnit unit_;
};

/// Workers on threads of their own; the thread that makes this is the head. `change` may change a rank's hello, or throw.
class LocalCluster {
 public:
  using Change = std::function<void(int rank, wire::Hello&)>;
  explicit LocalCluster(int ranks, Change change = {}, std::size_t models = 1) : network_(ranks), head_transport_(network_, 0) {
    for (int r = 1; r < ranks; ++r) threads_.emplace_back([this, r, change, models] { work(r, change, models); });
  }
  ~LocalCluster() {
    for (int r = 1; r < network_.size(); ++r) head_transport_.send(r, Tag::kStop, wire::encode_stop(0));
    for (auto& thread : threads_) thread.join();
  }
  Transport& head() { return head_transport_; }

 private:
  void work(int rank, const Change& change, std::size_t models) {
    LocalTransport transport(network_, rank);
    std::optional<LocalRank> parts;
    WorkerSetup setup;
    setup.host = "host" + std::to_string(rank);
    setup.open = [&] {
      wire::Hello hello = hello_of(rank, models);
      if (change) change(rank, hello);
      parts.emplace(models);
      return hello;
    };
    setup.make_stage = [&](const wire::PipelinePlan& plan, std::size_t place, CacheTypes types, const GroupMember& group) {
      return parts->factory()(plan, place, types, group);
    };
    run_worker(transport, setup);
  }

  LocalNetwork network_;
  LocalTransport head_transport_;
  std::vector<std::thread> threads_;
};

}  // namespace yamata::test
