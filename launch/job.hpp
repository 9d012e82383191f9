#pragma once
// One process of a job: which rank it is, its share of its machine, its view of the model.
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "launch/options.hpp"
#include "mpi/head.hpp"
#include "node/cpu_unit.hpp"
#include "src/gguf/gguf.hpp"

namespace yamata {

/// Set by SIGINT and SIGTERM.
extern std::atomic<bool> g_interrupted;
void catch_interrupts();

class Job {
 public:
  Job(const Options& options, Transport& transport, std::string host, int local_rank, int local_size);

  /// Opens the model and describes this rank.
  wire::Hello open();
  const gguf::File& file() const { return *file_; }
  const Hyperparameters& hyperparameters() const { return h_; }
  ComputeUnit& unit();
  const Options& options() const { return options_; }
  Transport& transport() { return transport_; }
  const std::string& host() const { return host_; }

  /// Tokens of context: -c, or the model's own up to the default. Throws UsageError beyond what the model was trained for.
  int context() const;
  /// What the head needs to lead this job with a cache of `context` tokens; refuses what will not fit into memory.
  ClusterOptions cluster() const;

 private:
  const Options& options_;
  Transport& transport_;
  std::string host_;
  int local_rank_, local_size_;
  std::optional<gguf::File> file_;
  Hyperparameters h_;
  cpu::Isa isa_ = cpu::Isa::kScalar;
  std::vector<int> cpus_;
  std::unique_ptr<CpuUnit> unit_;
};

// The commands, on the head. Each prints its result, and throws what the user must know.
void run_command(Job& job);
void perplexity_command(Job& job);
void tokenize_command(const Options& options);
void inspect_command(const Options& options, int ranks);

}  // namespace yamata
