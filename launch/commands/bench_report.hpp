#pragma once
// The results of yamata bench, for people and for programs.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launch/commands/bench_options.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

/// What a rank did per token of a test.
struct BenchRank {
  int rank = 0;
  std::string host, layers, isa, device;
  int threads = 0;
  double busy_ms = 0, wait_ms = 0;  ///< computing; anything else, which is waiting for other ranks
};

/// A test's result, named as llama-bench names it.
struct BenchRow {
  std::string build_commit, cpu_info, backends, model_filename, model_type;
  std::uint64_t model_size = 0, model_n_params = 0;  ///< bytes and numbers of all tensors
  int n_ranks = 1, n_batch = 0, n_threads = 0;       ///< threads of rank 0
  bool no_repack = false;
  std::string type_k, type_v;
  BenchTest test;
  std::string test_time;                  ///< when it began, ISO 8601
  std::vector<std::uint64_t> samples_ns;  ///< per repetition; of a width: of one run
  std::vector<BenchRank> per_rank;

  /// Tokens per second, per repetition.
  std::vector<double> samples_ts() const;
};

double mean(const std::vector<double>& values);
/// Of a sample: over n - 1; 0 where there are fewer than two.
double standard_deviation(const std::vector<double>& values);

/// Family, size and the type that takes most bytes: "llama 1.1B Q4_K".
std::string model_type(const gguf::File& file, const Hyperparameters& h);
/// Fills in what the model's file says.
void describe_model(const gguf::File& file, const Hyperparameters& h, BenchRow& row);
/// The type's name as the flags spell it.
std::string cache_type_name(CacheType type);

/// Rows one by one, as they come, in one format.
class BenchPrinter {
 public:
  virtual ~BenchPrinter() = default;
  virtual std::string begin() { return ""; }
  virtual std::string row(const BenchRow& row) = 0;
  virtual std::string end() { return ""; }

  /// `format`: md, csv, json, jsonl or sql. md shows columns that the options make worth showing.
  static std::unique_ptr<BenchPrinter> make(const std::string& format, const BenchOptions& options);
};

}  // namespace yamata
