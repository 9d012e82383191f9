#include "launch/job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>

#include "mpi/layer_split.hpp"
#include "node/error.hpp"
#include "node/topology.hpp"

namespace yamata {

namespace {

/// The share of the weights that is in memory, drawn over itself; gone when all is.
class LoadingBar {
 public:
  void operator()(double share) {
    const int percent = static_cast<int>(share * 100);
    if (percent == shown_) return;
    shown_ = percent;
    constexpr int kWidth = 40;
    const auto full = static_cast<std::size_t>(share * kWidth);
    fmt::print(stderr, "\rloading [{}{}] {:>3} %", std::string(full, '#'), std::string(kWidth - full, ' '), percent);
    if (percent == 100) fmt::print(stderr, "\r{:60}\r", "");
  }

 private:
  int shown_ = -1;
};

}  // namespace

std::atomic<bool> g_interrupted{false};

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { g_interrupted = true; };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Job::Job(const Options& options, Transport& transport, std::string host, int local_rank, int local_size)
    : options_(options), transport_(transport), host_(std::move(host)), local_rank_(local_rank), local_size_(local_size) {}

wire::Hello Job::open() {
  isa_ = cpu::choose_isa();
  file_ = gguf::File::open(options_.model);
  h_ = Hyperparameters::read(*file_);
  // A launcher binds ranks as if each were one thread; Yamata shares the cores out itself.
  const bool launched = transport_.size() > 1;
  cpus_ = assign_cpus(Topology::detect(launched), options_.threads, local_rank_, local_size_);
  wire::Hello hello;
  hello.version = YAMATA_VERSION;
  hello.host = host_;
  hello.isa = cpu::isa_name(isa_);
  hello.fingerprint = file_->fingerprint();
  file_->release_pages();
  hello.available_bytes = available_memory_bytes();
  hello.threads = static_cast<std::int32_t>(cpus_.size());
  return hello;
}

ComputeUnit& Job::unit() {
  if (!unit_) unit_ = std::make_unique<CpuUnit>(cpus_, isa_);
  return *unit_;
}

int Job::context() const {
  const std::int64_t trained = h_.context;
  if (options_.context == 0) return static_cast<int>(std::min<std::int64_t>(trained, kDefaultContext));
  return options_.context;
}

ClusterOptions Job::cluster() const {
  ClusterOptions cluster;
  cluster.timeout = options_.timeout;
  cluster.layer_split = parse_layer_split(options_.layer_split);
  cluster.context.cells = context();
  cluster.context.cache_type = options_.cache_type;
  cluster.interrupted = &g_interrupted;
  cluster.batch = options_.batch;
  cluster.on_warning = [](const std::string& text) { fmt::print(stderr, "yamata: warning: {}\n", text); };
  if (isatty(STDERR_FILENO)) cluster.on_loading = LoadingBar();
  return cluster;
}

}  // namespace yamata
