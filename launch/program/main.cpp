// yamata: runs a command and returns its exit code.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>

#include "launch/commands/commands.hpp"
#include "launch/program/command_line.hpp"
#include "launch/program/guard/guard.hpp"
#include "launch/program/guard/mpi_start.hpp"
#include "launch/program/input/interrupts.hpp"
#include "launch/program/job/follower.hpp"
#include "launch/program/job/job.hpp"
#include "launch/program/output/standard_output.hpp"
#include "launch/program/output/warnings.hpp"
#include "mpi/cluster/announcements.hpp"
#include "mpi/cluster/left_out.hpp"
#include "mpi/cluster/mpirun.hpp"
#include "mpi/cluster/worker.hpp"
#include "mpi/transport/disconnect.hpp"
#include "mpi/transport/local_transport.hpp"
#include "mpi/transport/mpi_session.hpp"
#include "mpi/transport/mpi_transport.hpp"
#include "node/detached_thread.hpp"
#include "node/error.hpp"
#include "node/limits.hpp"
#include "node/lost_pages.hpp"

namespace yamata {
namespace {

/// The command line. It is read once, since a file that it names may be a pipe.
class GivenLine {
 public:
  GivenLine(int argc, char** argv) {
    try {
      line_ = parse_command_line(argc, argv);
    } catch (...) {
      fault_ = std::current_exception();
    }
  }
  /// Throws the error of reading it.
  const CommandLine& line() const {
    if (fault_) std::rethrow_exception(fault_);
    return line_;
  }
  /// --timeout and --serving-timeout; their defaults if the flags cannot be read.
  std::chrono::milliseconds timeout() const { return first_job().timeout; }
  std::chrono::milliseconds serving_timeout() const { return first_job().serving_timeout; }
  /// Whether the command is for ranks.
  bool has_job() const { return !jobs_of(line_).empty(); }

 private:
  JobOptions first_job() const {
    const std::vector<JobOptions> jobs = jobs_of(line_);
    return jobs.empty() ? JobOptions{} : jobs.front();
  }
  CommandLine line_;
  std::exception_ptr fault_;
};

/// The processes of this job: MPI's ranks, or only this one.
struct World {
  std::unique_ptr<MpiSession> session;
  std::unique_ptr<LocalNetwork> network;
  std::unique_ptr<Transport> transport;
  RankLocation location;
  std::chrono::milliseconds timeout = JobOptions{}.timeout;
};

World make_world(std::chrono::milliseconds timeout) {
  World world;
  world.timeout = timeout;
  if (launched_by_mpi()) {
    require_limits_for_mpi(timeout);
    world.session = std::make_unique<MpiSession>();
    world.transport = std::make_unique<MpiTransport>();
    world.location = {world.transport->rank(), world.transport->size(), world.session->host(), world.session->local_rank(),
                      world.session->local_size()};
    return world;
  }
  char name[256] = "localhost";
  gethostname(name, sizeof(name) - 1);
  world.location.host = name;
  world.network = std::make_unique<LocalNetwork>(1);
  world.transport = std::make_unique<LocalTransport>(*world.network, 0);
  return world;
}

std::unique_ptr<Job> make_job(const JobOptions& options, World& world) {
  return std::make_unique<Job>(options, *world.transport, world.location);
}

/// Executes the command, on rank 0.
class Command {
 public:
  explicit Command(World& world) : world_(world) {}

  void operator()(std::monostate) const {}
  void operator()(const RunOptions& options) const { run_command(*make_job(options.job, world_), options); }
  void operator()(const EngineOptions& options) const { engine_command(*make_job(options.job, world_), options); }
  void operator()(const PerplexityOptions& options) const { perplexity_command(*make_job(options.job, world_), options); }
  void operator()(const AcceptanceOptions& options) const { acceptance_command(*make_job(options.job, world_), options); }
  void operator()(const FeaturesOptions& options) const { features_command(*make_job(options.job, world_), options); }
  void operator()(const BenchOptions& options) const {
    bench_command(options, [this](const JobOptions& job) { return make_job(job, world_); });
  }
  void operator()(const TokenizeOptions& options) const { tokenize_command(options); }
  void operator()(const InspectOptions& options) const { inspect_command(options, world_.transport->size()); }
  void operator()(const SimulationOptions& options) const {
    require_one_process("simulate runs all ranks in one process");
    simulate_command(options);
  }
  void operator()(const PlanOptions& options) const {
    require_one_process("plan simulates all ranks in one process");
    plan_command(options);
  }
  void operator()(const ProfileOptions& options) const {
    require_one_process("profile measures one machine in one process");
    profile_command(options);
  }
  void operator()(const FetchedOptions& options) const {
    require_one_process("fetch shows the cache of one machine");
    fetch_command(options);
  }
  void operator()(const QuantizeOptions& options) const {
    require_one_process("quantize uses one process with threads");
    quantize_command(options);
  }

 private:
  void require_one_process(const char* why) const {
    if (world_.transport->size() > 1) throw UsageError(fmt::format("{}; start it without mpirun", why));
  }

  World& world_;
};

ModelError out_of_memory(const World& world, const char* remedy) {
  return ModelError(fmt::format("out of memory on rank 0 ({}); {}{}", world.location.host, remedy, or_raise_memory_limit()));
}

void run_head(const CommandLine& line, World& world) {
  if (!line.text.empty()) return print_out(line.text);
  try {
    std::visit(Command(world), line.options);
  } catch (const std::bad_alloc&) {
    throw out_of_memory(world, jobs_of(line).empty() ? "free some memory, or name smaller files" : "lower -c or use more ranks");
  }
  show_warnings();
}

/// Finalizing MPI does not return if a link is cut in the meantime, or if a daemon of the launcher does not answer. The work is done, so
/// then the job is ended with its exit code.
void bound_finalize(const World& world, int code) {
  if (!world.session) return;
  const bool head = world.transport->rank() == 0;
  try_detached([code, patience = world.timeout + std::chrono::seconds(head ? 2 : 4)] {
    std::this_thread::sleep_for(patience);
    end_job(code);
    std::_Exit(code);
  });
}

/// Disconnects from the other ranks. If one was lost, finalizing MPI would wait for it forever, so the head ends the job instead.
void disconnect(World& world, int code) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::seconds(10);  // enough for a slow link with much data in flight
  const auto patience = std::min(world.timeout, kLongest);
  // The head has waited for reports, and writes its results, before it disconnects.
  const bool together = part(*world.transport, patience, std::max(world.timeout, patience * 3 / 2 + std::chrono::milliseconds(500)));
  tell_guard(Phase::kEnding);
  if (together) return bound_finalize(world, code);
  std::fflush(nullptr);
  if (world.transport->rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(1));  // the head does this first, if it can be reached
  world.transport->abort(code);
}

/// Tells the other ranks to end; harmless if they have been told before.
void end_ranks(World& world, int code) {
  for (int r = 1; r < world.transport->size(); ++r) world.transport->send(r, Tag::kStop, wire::encode_stop(code));
  disconnect(world, code);
}

/// The exit code of `work`; its error is printed.
template <class Work>
int code_of(const World& world, Work work) {
  const auto say = [](const std::string& text) { print_error("yamata: {}\n", text); };
  try {
    work();
    return static_cast<int>(ExitCode::kDone);
  } catch (const Interrupted&) {
    return static_cast<int>(ExitCode::kInterrupted);
  } catch (const LostPages& e) {
    say((world.transport->size() > 1 ? fmt::format("rank 0 ({}): ", world.location.host) : "") + e.what());
    return static_cast<int>(e.code());
  } catch (const Error& e) {
    say(e.what());
    return static_cast<int>(e.code());
  } catch (const std::system_error& e) {
    say(refused(e).what());
    return static_cast<int>(ExitCode::kModel);
  } catch (const std::bad_alloc&) {
    say(out_of_memory(world, "free some memory").what());
    return static_cast<int>(ExitCode::kModel);
  }
}

/// Throws ClusterError if a launcher on another machine, which forwards standard output, cannot be reached any more. Job::end has asked
/// the same, for the code with which the other ranks end; this gives rank 0 its own code, after its files are written, and for commands
/// without a job the only answer.
void require_launcher(const World& world) {
  if (!world.session || reaches_mpirun()) return;
  throw ClusterError(
      fmt::format("rank 0 ({}) does not reach mpirun any more, so its output may be missing there; look at the network between the two "
                  "machines",
                  world.location.host));
}

int head_main(const GivenLine& flags, World& world) {
  int code = code_of(world, [&] {
    run_head(flags.line(), world);
    require_pages();
    require_launcher(world);
  });
  if (code != static_cast<int>(ExitCode::kCluster)) {
    const int output = code_of(world, require_standard_output);
    if (code == static_cast<int>(ExitCode::kDone)) code = output;
  }
  // A silent rank would not receive a normal request.
  if (code == static_cast<int>(ExitCode::kCluster)) {
    announce_end(*world.transport, code);
    world.transport->abort(code);
  }
  end_ranks(world, code);
  // Launchers print a page about a process that exits with an error code, but not about a job that is ended with it.
  if (code != 0 && code != static_cast<int>(ExitCode::kInterrupted) && world.session && end_job(code)) {
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}

int worker_main(const GivenLine& flags, World& world) {
  Follower follower([&, next = std::size_t{0}]() mutable -> std::unique_ptr<JobRank> {
    const CommandLine& line = flags.line();
    if (!line.text.empty()) return nullptr;
    const std::vector<JobOptions> jobs = jobs_of(line);
    if (next == jobs.size()) throw ClusterError("this rank was started with other flags than rank 0; give all ranks the same ones");
    return std::make_unique<JobRank>(jobs[next++], *world.transport, world.location);
  });
  WorkerSetup setup = follower.setup();
  setup.host = world.location.host;
  setup.timeout = world.timeout;
  setup.serving_timeout = flags.serving_timeout();
  setup.woken = &g_woken;
  setup.dispensable = let_job_survive_this_rank;
  setup.launcher_gone = launcher_is_gone();
  setup.head_unheard = [] { may_be_cut_off(); };
  setup.reaches_launcher = reaches_distant_mpirun;
  setup.announced_left_out = [rank = world.transport->rank()] { return is_announced_left_out(rank); };
  const int code = run_worker(*world.transport, setup);
  // There is no rank to disconnect from. The launcher ends this rank, unless the rank that has ended the job does not reach it.
  if (code == static_cast<int>(ExitCode::kCluster)) {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    if (world.transport->rank() == 1)  // one line is enough
      print_error(
          "yamata: the job has ended with exit code {}, but the rank that ended it does not reach mpirun, so its output may be missing "
          "here; look at the network between the two machines\n",
          code);
    world.transport->abort(code);
  }
  disconnect(world, code);
  return 0;  // the head returns the job's exit code
}

/// Occupies the standard streams that are closed, so that no file that is opened later becomes one of them. Reading and writing fail as
/// before.
void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) (void)!::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace
}  // namespace yamata

int main(int argc, char** argv) {
  using namespace yamata;
  std::signal(SIGXFSZ, SIG_IGN);  // if a file may not grow, its write fails, as on a full disk
  keep_standard_streams();
  const GivenLine flags(argc, argv);
  const auto timeout = flags.timeout();
  guard_rank(argc, argv, timeout);
  before_job_ends(job_is_over);
  catch_interrupts();
  survive_lost_pages();
  try {
    const int tasks = tasks_of_srun();
    World world = make_world(timeout);
    if (flags.has_job()) require_ranks_of_srun(tasks, world.transport->size());
    // The head sends heartbeats to the others after its own preparations.
    tell_guard(world.transport->rank() == 0 ? Phase::kAlone : Phase::kWatched);
    return world.transport->rank() == 0 ? head_main(flags, world) : worker_main(flags, world);
  } catch (const Error& e) {
    print_error("yamata: {}\n", e.what());
    return static_cast<int>(e.code());
  } catch (const std::system_error& e) {
    print_error("yamata: {}\n", refused(e).what());
    return static_cast<int>(ExitCode::kModel);
  }
}
