#include "tests/launch/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "tests/paths.hpp"

namespace yamata::test {

const std::string kModel = test::source_path("/models/tales-target-q8_0.gguf"), kDraft = test::source_path("/models/tales-draft-q8_0.gguf"),
                  kProgram = YAMATA_PROGRAM;

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write_file(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

Process::Process(const Arguments& command, std::uint64_t largest_file) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const std::string out = folder_ / "out", err = folder_ / "err";
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  if (pid_ > 0) return;
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDOUT_FILENO);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
  if (largest_file) {
    const rlimit limit{largest_file, largest_file};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  execvp(argv[0], argv.data());
  _exit(127);
}

Process::~Process() {
  if (code_ >= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Process::wait_for_output(std::size_t bytes) {
  while (out().size() < bytes) {
    if (ended()) return false;
    std::this_thread::yield();
  }
  return true;
}

bool Process::ended() const {
  siginfo_t end{};
  return waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == pid_;
}

int Process::wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  return code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string Process::out() const { return read_file(folder_ / "out"); }
std::string Process::err() const { return read_file(folder_ / "err"); }

namespace {

constexpr std::string_view kWarning = "yamata: warning:";

template <class Keep>
std::vector<std::string> lines_of(const std::string& text, Keep keep) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (keep(line)) lines.push_back(line);
  }
  return lines;
}

}  // namespace

std::vector<std::string> Outcome::complaints() const {
  return lines_of(err, [](const std::string& line) { return line.starts_with("yamata:") && !line.starts_with(kWarning); });
}

std::vector<std::string> Outcome::warnings() const {
  return lines_of(err, [](const std::string& line) { return line.starts_with(kWarning); });
}

Arguments yamata(const Arguments& arguments, int ranks) {
  Arguments command;
  // mpirun refuses to run as root without this.
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  if (ranks > 0) command = {YAMATA_MPIRUN, "--oversubscribe", "--bind-to", "none", "-np", std::to_string(ranks)};
  command.push_back(kProgram);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

Outcome run(const Arguments& command, std::uint64_t largest_file) {
  Process process(command, largest_file);
  const int code = process.wait();
  return {code, process.out(), process.err()};
}

int patience() {
  const char* times = getenv("YAMATA_PATIENCE");
  return times ? std::max(1, std::atoi(times)) : 1;
}

pid_t parent_of(pid_t process) {
  const std::string stat = read_file("/proc/" + std::to_string(process) + "/stat");
  const auto name_end = stat.rfind(')');
  return name_end == std::string::npos ? 0 : std::atoi(stat.c_str() + name_end + 4);
}

namespace {

bool descends_from(pid_t pid, pid_t ancestor) {
  while (pid > 1 && pid != ancestor) pid = parent_of(pid);
  return pid == ancestor;
}

}  // namespace

pid_t process_of_rank(pid_t mpirun, int rank) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || read_file(entry.path() / "comm") != "yamata\n" || !descends_from(pid, mpirun)) continue;
    const std::string environment = read_file(entry.path() / "environ");
    const std::string wanted = std::string(1, '\0') + "OMPI_COMM_WORLD_RANK=" + std::to_string(rank) + std::string(1, '\0');
    if (environment.find(wanted) != std::string::npos) return pid;
  }
  throw std::runtime_error("rank " + std::to_string(rank) + " has no process");
}

}  // namespace yamata::test
