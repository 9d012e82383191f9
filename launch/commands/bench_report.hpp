#pragma once
// The results of yamata bench, as tables and in formats for programs.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launch/commands/bench_options.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

/// Times of a rank, per token of a test.
struct BenchRank {
  int rank = 0;
  std::string host, layers, isa, device;
  int threads = 0;
  double busy_ms = 0, wait_ms = 0;  ///< busy: computing; wait: everything else, mostly waiting for other ranks
};

/// A test's result; the names are those of llama-bench.
struct BenchRow {
  std::string build_commit, cpu_info, backends, model_filename, model_type;
  std::uint64_t model_size = 0, model_n_params = 0;  ///< bytes and number of elements of all tensors
  int n_ranks = 1, n_batch = 0, n_threads = 0;       ///< n_threads: of rank 0
  bool no_repack = false;
  std::string type_k, type_v;
  BenchTest test;
  std::string test_time;                  ///< when the test began, ISO 8601
  std::vector<std::uint64_t> samples_ns;  ///< per repetition; for a width: per run
  std::vector<BenchRank> per_rank;

  /// Tokens per second, per repetition.
  std::vector<double> samples_ts() const;
};

double mean(const std::vector<double>& values);
/// Sample standard deviation (divided by n - 1); 0 for fewer than two values.
double standard_deviation(const std::vector<double>& values);

/// Family, size, and the tensor type with the most bytes: "llama 1.1B Q4_K".
std::string model_type(const gguf::File& file, const Hyperparameters& h);
/// Fills in the columns that depend on the model's file.
void describe_model(const gguf::File& file, const Hyperparameters& h, BenchRow& row);
/// The type's name as in the flags.
std::string cache_type_name(CacheType type);

/// Prints rows one by one, in one format.
class BenchPrinter {
 public:
  virtual ~BenchPrinter() = default;
  virtual std::string begin() { return ""; }
  virtual std::string row(const BenchRow& row) = 0;
  virtual std::string end() { return ""; }

  /// `format`: md, csv, json, jsonl or sql. md shows only the columns that matter for these options.
  static std::unique_ptr<BenchPrinter> make(const std::string& format, const BenchOptions& options);
};

}  // namespace yamata
