#pragma once
// The mpirun of Open MPI 4 that started this process: whether it still runs, and how it is told that its daemons are lost.
#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace yamata {

/// mpirun keeps a connection to one daemon (orted) per machine, which starts that machine's ranks, and does not end before all
/// of these are closed. To one that is cut off or stopped that takes a quarter of an hour or for ever, whatever the job has come to.
class Mpirun {
 public:
  /// As the environment tells of it; nothing under another launcher or without one.
  static std::optional<Mpirun> of_this_process();
  /// `own_daemon` and `mpirun`: the addresses ("JOB.NUMBER;tcp://HOST[,HOST...]:PORT") of the daemon that started this process and of
  /// mpirun; `daemons`: mpirun's and its daemons' number. Nothing where they cannot be read.
  static std::optional<Mpirun> from_addresses(const std::string& own_daemon, const std::string& mpirun, int daemons);

  /// Whether this process was started by mpirun itself, not by a daemon of its.
  bool is_parent() const { return is_parent_; }
  enum class Answer { kRuns, kGone, kUnreachable };
  /// Whether it runs, asked at its address; waits a second at most for each of these.
  Answer ask() const;
  /// Closes its connection to every daemon: connects to it in the name of each, which closes the connection before, and hangs up.
  /// Only after the end of the job was ordered: mpirun would give up a job that goes on. False where it could not be reached.
  bool release_daemons() const;

 private:
  /// A connection, or what kept it from being made.
  struct Connection {
    int fd = -1;
    Answer answer = Answer::kUnreachable;
  };
  Connection connect() const;
  bool release(std::uint32_t daemon) const;

  std::uint32_t job_ = 0;  // that of mpirun and its daemons
  std::uint32_t daemons_ = 0;
  bool is_parent_ = false;
  std::vector<sockaddr_in> addresses_;
};

}  // namespace yamata
