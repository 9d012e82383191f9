#pragma once
// The files of a job's models on rank 0, for ranks whose machines lack them.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launch/program/job/rank_models.hpp"
#include "mpi/cluster/weights_server.hpp"
#include "node/mapped_file.hpp"

namespace yamata {

class SharedWeights final : public WeightsSource {
 public:
  /// `models` outlives this, and has all models open when the first is asked for.
  explicit SharedWeights(const RankModels& models) : models_(models) {}

  const fetch::ModelShape& shape(std::int32_t model) override { return find(model).shape; }
  std::span<const std::byte> bytes(std::int32_t model, std::size_t part) override { return find(model).bytes[part]; }

 private:
  struct Files {
    fetch::ModelShape shape;
    std::vector<std::span<const std::byte>> bytes;   // per part
    std::vector<std::unique_ptr<MappedFile>> heads;  // files of draft heads, which are mapped here
  };
  const Files& find(std::int32_t model);
  void add_model(Files& files, const gguf::File& file) const;
  void add_heads(Files& files, const std::string& path) const;

  const RankModels& models_;
  std::map<std::int32_t, Files> files_;
};

}  // namespace yamata
