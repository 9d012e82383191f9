#include "mpi/cluster/leftovers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "node/process.hpp"

namespace yamata {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kMark = "yamata-rank-";

/// Identifies the set of processes visible from here: processes in another container could not be recognised as dead.
std::string process_space() {
  std::error_code unseen;
  return fs::read_symlink("/proc/self/ns/pid", unseen).string();
}

/// Distinguishes a process from earlier and later ones with the same number; empty if it has ended.
std::string process_identity(const std::string& number) {
  const pid_t process = std::atoi(number.c_str());
  const char state = process_state(process);
  return state == '?' || state == 'Z' || state == 'X' ? "" : fmt::format("{} {}", number, process_start(process));
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) found.push_back(entry->path());
  return found;
}

bool is_owned_by_this_user(const fs::path& path) {
  struct stat entry {};
  return lstat(path.c_str(), &entry) == 0 && entry.st_uid == geteuid();
}

bool is_locked(const fs::path& mark) {
  const int fd = open(mark.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return true;                                // unknown
  const bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0;  // other processes may hold a shared lock for the same check
  close(fd);
  return locked;
}

/// Files mapped by living processes, as far as this user may see them. Other users' processes cannot map files that only this user may
/// open.
std::set<std::string> mapped_files() {
  std::set<std::string> files;
  for (const fs::path& process : entries("/proc")) {
    if (process.filename().string().find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream maps(process / "maps");
    for (std::string line; std::getline(maps, line);) {
      if (const auto path = line.find('/'); path != std::string::npos) files.insert(line.substr(path));
    }
  }
  return files;
}

bool any_below(const std::set<std::string>& files, const std::string& beginning) {
  const auto first = files.lower_bound(beginning);
  return first != files.end() && first->starts_with(beginning);
}

/// The files of a dead job.
struct Leftovers {
  fs::path session;
  std::vector<std::string> beginnings;  // prefixes of the names of its ranks' shared memory
};

/// Whether all marks in a job's folder say that the job is dead. `owner` is "HOST.UID", from the name of the folder above.
bool is_dead(const fs::path& session, const std::string& owner, Leftovers& leftovers) {
  bool marked = false;
  for (const fs::path& mark : entries(session)) {
    if (!mark.filename().string().starts_with(kMark)) continue;
    std::ifstream text(mark);
    std::string space, job, launcher;
    if (!std::getline(text, space) || !std::getline(text, job) || !std::getline(text, launcher)) return false;
    if (space != process_space() || is_locked(mark)) return false;
    // The job's launcher is alive: it may be a script between two commands.
    if (!launcher.empty() && launcher == process_identity(launcher.substr(0, launcher.find(' ')))) return false;
    const unsigned long number = std::strtoul(job.c_str(), nullptr, 10);
    if (number != 0) leftovers.beginnings.push_back(fmt::format("vader_segment.{}.{:x}.", owner, number));
    marked = true;
  }
  return marked;
}

}  // namespace

void mark_session() {
  const std::string session = environment_variable("OMPI_MCA_orte_jobfam_session_dir"), rank = environment_variable("OMPI_COMM_WORLD_RANK");
  if (session.empty() || rank.empty()) return;
  const std::string mark = fmt::format("{}/{}{}", session, kMark, rank);
  const int fd = open(mark.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  flock(fd, LOCK_EX);  // the lock is held until the last process that has inherited it ends
  // A launcher that was killed before has left this process to the first one.
  const std::string launcher = getppid() == 1 ? "" : process_identity(std::to_string(getppid()));
  const std::string text = fmt::format("{}\n{}\n{}\n", process_space(), environment_variable("PMIX_NAMESPACE"), launcher);
  if (write(fd, text.data(), text.size()) < 0) unlink(mark.c_str());
}

bool session_is_left() {
  const std::string session = environment_variable("OMPI_MCA_orte_jobfam_session_dir");
  std::error_code unseen;
  return !session.empty() && fs::exists(session, unseen);
}

void clear_leftovers() {
  const std::string sessions = environment_variable("OMPI_MCA_orte_top_session_dir");
  if (!sessions.empty()) clear_leftovers(sessions, "/dev/shm");
}

void clear_leftovers(const fs::path& sessions, const fs::path& shared_memory) {
  const std::string folder = sessions.filename().string(), prefix = "ompi.";
  if (!folder.starts_with(prefix)) return;
  std::vector<Leftovers> dead;
  for (const fs::path& session : entries(sessions)) {
    Leftovers leftovers{session, {}};
    if (is_owned_by_this_user(session) && is_dead(session, folder.substr(prefix.size()), leftovers)) dead.push_back(leftovers);
  }
  if (dead.empty()) return;

  const std::set<std::string> mapped = mapped_files();
  std::error_code ignored;
  for (const Leftovers& leftovers : dead) {
    if (any_below(mapped, fs::canonical(leftovers.session, ignored).string() + "/")) continue;
    for (const fs::path& file : entries(shared_memory)) {
      const auto is_of_job = [&](const std::string& beginning) { return file.filename().string().starts_with(beginning); };
      const bool of_job = std::any_of(leftovers.beginnings.begin(), leftovers.beginnings.end(), is_of_job);
      if (of_job && is_owned_by_this_user(file) && !any_below(mapped, file.string())) fs::remove(file, ignored);
    }
    fs::remove_all(leftovers.session, ignored);
  }
  fs::remove(sessions, ignored);  // only if it is empty now
}

}  // namespace yamata
