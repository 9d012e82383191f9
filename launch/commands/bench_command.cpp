// yamata bench: measures the speed of models; prints a line per test as soon as it is finished.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <optional>

#include "launch/commands/bench_report.hpp"
#include "launch/commands/bench_runner.hpp"
#include "launch/commands/commands.hpp"
#include "launch/program/job/job.hpp"
#include "launch/program/output/report.hpp"
#include "launch/program/output/standard_output.hpp"
#include "mpi/planning/layer_split.hpp"
#include "node/error.hpp"
#include "node/topology.hpp"
#include "src/tokenizer/tokenizer.hpp"

namespace yamata {
namespace {

/// The command's progress, on one line of a terminal.
class Progress {
 public:
  explicit Progress(std::size_t tests) : tests_(tests), shown_(isatty(STDERR_FILENO) != 0) {}
  void show(std::size_t test, const std::string& name, int repetition, int repetitions) const {
    if (shown_) fmt::print(stderr, "\r{:79}\rtest {}/{}: {}, {}/{}", "", test, tests_, name, repetition, repetitions);
  }
  void clear() const {
    if (shown_) fmt::print(stderr, "\r{:79}\r", "");
  }

 private:
  std::size_t tests_;
  bool shown_;
};

/// The outputs to standard output and to standard error. They are complete, such as a JSON array that is closed, even if the command ends
/// early.
class Outputs {
 public:
  explicit Outputs(const BenchOptions& options) : out_(BenchPrinter::make(options.output, options)) {
    if (options.error_output != "none") error_ = BenchPrinter::make(options.error_output, options);
  }
  ~Outputs() {
    if (begun_) write([](BenchPrinter& printer) { return printer.end(); });
  }
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;
  void begin() {
    begun_ = true;
    write([](BenchPrinter& printer) { return printer.begin(); });
  }
  void row(const BenchRow& row) {
    write([&](BenchPrinter& printer) { return printer.row(row); });
  }

 private:
  template <class Part>
  void write(Part part) {
    print_out(part(*out_));
    flush_out();
    if (error_) print_error(part(*error_));
  }
  std::unique_ptr<BenchPrinter> out_, error_;
  bool begun_ = false;
};

std::string backends(const std::vector<wire::Report>& reports) {
  std::vector<std::string> names;
  for (const wire::Report& report : reports) {
    std::string name = fmt::format("{} ({})", report.device == "cpu" ? "CPU" : report.device, report.isa);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The columns that all tests of a job share.
BenchRow row_of(const JobRank& rank, const wire::Hello& hello, const std::vector<wire::Report>& reports) {
  const JobOptions& options = rank.options();
  BenchRow row;
  row.build_commit = hello.version;
  row.cpu_info = cpu_name();
  row.backends = backends(reports);
  row.model_filename = options.models.target;
  describe_model(rank.models().target().file, rank.models().target().h, row);
  row.n_ranks = static_cast<int>(reports.size());
  row.n_batch = options.cache.batch;
  row.n_threads = hello.threads;
  row.no_repack = !options.compute.repack;
  row.type_k = cache_type_name(options.cache.types.k);
  row.type_v = cache_type_name(options.cache.types.v);
  for (std::size_t r = 0; r < reports.size(); ++r)
    row.per_rank.push_back(
        {static_cast<int>(r), reports[r].host, held_layers(reports[r]), reports[r].isa, reports[r].device, reports[r].threads});
  return row;
}

void take_times(const BenchTimes& times, BenchRow& row) {
  row.samples_ns = times.samples_ns;
  const double per_token = 1e3 / static_cast<double>(times.tokens);
  for (std::size_t r = 0; r < row.per_rank.size(); ++r) {
    row.per_rank[r].busy_ms = times.busy_s[r] * per_token;
    row.per_rank[r].wait_ms = std::max(0.0, times.wall_s - times.busy_s[r]) * per_token;
  }
}

/// Runs all tests of one job; `done`: number of tests of earlier jobs.
void run_tests(const BenchOptions& bench, const JobRank& rank, Head& head, const wire::Hello& hello, std::size_t done,
               const Progress& progress, Outputs& outputs) {
  const auto tokenizer = Tokenizer::load(rank.models().target().file, "");
  const std::int32_t first = tokenizer->adds_bos() ? tokenizer->bos() : -1;
  const Hyperparameters& h = rank.models().target().h;
  BenchRunner runner(head, h.vocabulary, first, rank.options().cache.batch, h.is_recurrent());
  const BenchRow row = row_of(rank, hello, head.ask_reports());
  for (std::size_t i = 0; i < bench.tests.size(); ++i) {
    const BenchTest& test = bench.tests[i];
    BenchRow result = row;
    result.test = test;
    result.test_time = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));
    const auto show = [&](int repetition) { progress.show(done + i + 1, test.name(), repetition + 1, bench.repetitions); };
    show(0);
    take_times(runner.run(test, bench.repetitions, bench.warm_up, show), result);
    progress.clear();
    outputs.row(result);
  }
}

/// Throws UsageError if a model has too few layers, before the first one is measured. A model that cannot be opened is its own job's fault.
void require_layers(const BenchOptions& options, int ranks) {
  const ModelPlace place = make_layout(options.job.layout.split.text, ranks, 0, false).front();
  for (const std::string& path : options.models) {
    std::optional<ModelFile> model;
    try {
      model = ModelFile::open(path);
    } catch (const ModelError&) {
      continue;
    }
    split_layers(model->file, model->h, place.stage_shares(), place.stages());
  }
}

}  // namespace

void bench_command(const BenchOptions& options, const JobMaker& make_job) {
  const std::vector<JobOptions> jobs = jobs_of(options);
  const std::size_t tests = options.tests.size();
  const Progress progress(jobs.size() * tests);
  Outputs outputs(options);
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const auto job = make_job(jobs[j]);
    const wire::Hello hello = job->open();
    if (j == 0) {
      require_layers(options, job->transport().size());
      outputs.begin();
    }
    job->start({});
    job->serve([&](Head& head) { run_tests(options, job->rank(), head, hello, j * tests, progress, outputs); });
    job->end(j + 1 < jobs.size() ? Job::Then::kNextJob : Job::Then::kEnd);
    if (job->interrupted()) throw Interrupted{};
  }
}

}  // namespace yamata
