#pragma once
// Initialization and end of MPI.
#include <string>

namespace yamata {

/// Whether an MPI launcher started this process; a lone process never initializes MPI.
bool launched_by_mpi();
/// The rank that the launcher gave this process, known before MPI is initialized; -1 if unknown.
int mpi_rank_from_environment();
/// Asks the launcher to end all processes of the job, including those that do not know of its end, and to return `code`. False if the
/// launcher cannot be asked. After this, the process may end.
bool end_job(int code);
/// `told` is called before this process asks the launcher for that; after the call, the process may end at any moment.
void before_job_ends(void (*told)());
/// Throws ClusterError with the function's name and MPI's text unless the code means success. `call`: as in the source.
void check_mpi(int code, const char* call);
#define YAMATA_MPI(call) ::yamata::check_mpi(call, #call)

/// MPI_Init_thread on construction (MPI calls from one thread), MPI_Finalize on destruction. One per process.
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  const std::string& host() const { return host_; }
  /// Rank among the processes on this machine, and their number.
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }

 private:
  std::string host_;
  int local_rank_ = 0, local_size_ = 1;
};

}  // namespace yamata
