#pragma once
// The mpirun of Open MPI 4 that started this process: whether it still runs, and how to make it give up lost daemons.
#include <netinet/in.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace yamata {

/// mpirun keeps a connection to one daemon (orted) per machine, which starts that machine's ranks. It does not end before all connections
/// are closed. If a machine is cut off or its daemon is stopped, this takes a quarter of an hour or for ever, whatever the state of the
/// job.
class Mpirun {
 public:
  /// Reads the environment; nothing under another launcher or without one.
  static std::optional<Mpirun> of_this_process();
  /// `own_daemon` and `mpirun`: the addresses ("JOB.NUMBER;tcp://HOST[,HOST...]:PORT") of the daemon that started this process and of
  /// mpirun; `daemons`: the number of mpirun and its daemons together. Nothing if they cannot be parsed.
  static std::optional<Mpirun> from_addresses(const std::string& own_daemon, const std::string& mpirun, int daemons);

  /// Whether mpirun itself started this process, not one of its daemons.
  bool is_parent() const { return is_parent_; }
  enum class Answer { kRuns, kGone, kUnreachable };
  /// Whether it runs, checked at its addresses; waits `patience_ms` for each.
  Answer ask(int patience_ms = kPatienceMs) const;
  /// False if it is unreachable in three attempts, which take about `limit` together.
  bool is_reached(std::chrono::milliseconds limit) const;
  /// Whether it acts on its connections, as it does unless it is suspended: it closes one that says nothing. Waits at most a second.
  bool responds() const;
  /// Closes its connection to every daemon: connects in the name of each daemon, which replaces the old connection, and disconnects. Call
  /// it only after the end of the job was ordered, because mpirun would abort a running job. False if mpirun could not be reached, or is
  /// suspended: when it continues, it still has output to read from the old connections.
  bool release_daemons() const;

 private:
  static constexpr int kPatienceMs = 1000;
  /// A connection, or the reason why there is none.
  struct Connection {
    int fd = -1;
    Answer answer = Answer::kUnreachable;
  };
  Connection connect(int patience_ms = kPatienceMs) const;
  bool release(std::uint32_t daemon) const;

  std::uint32_t job_ = 0;  // that of mpirun and its daemons
  std::uint32_t daemons_ = 0;
  bool is_parent_ = false;
  std::vector<sockaddr_in> addresses_;
};

/// Whether the mpirun that forwards this process's output can be reached: false after three attempts within `limit`. True if mpirun itself
/// started this process, or if there is none.
bool reaches_mpirun(std::chrono::milliseconds limit = std::chrono::seconds(4));

/// The same in one attempt; nothing if this machine's link does not matter, because mpirun itself started this process or there is none.
std::optional<bool> reaches_distant_mpirun();

}  // namespace yamata
