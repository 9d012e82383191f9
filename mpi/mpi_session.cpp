#include "mpi/mpi_session.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>

#include <cstdlib>
#include <exception>

#include "node/error.hpp"

namespace yamata {

bool launched_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"}) {
    if (std::getenv(name)) return true;
  }
  return false;
}

int mpi_rank_from_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* rank = std::getenv(name)) return std::atoi(rank);
  }
  return -1;
}

namespace {
void (*told_of_end)() = nullptr;
}  // namespace

void before_job_ends(void (*told)()) { told_of_end = told; }

bool end_job(int code) {
  if (told_of_end) told_of_end();
  void* pmix = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD);  // Open MPI's own way to its launcher
  const auto abort = pmix ? reinterpret_cast<int (*)(int, const char*, void*, std::size_t)>(dlsym(pmix, "PMIx_Abort")) : nullptr;
  return abort && abort(code, nullptr, nullptr, 0) == 0;
}

void check_mpi(int code, const char* call, const char* file, int line) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw ClusterError(fmt::format("{} failed: {} ({}:{})", call, text, file, line));
}

MpiSession::MpiSession() {
  int provided = MPI_THREAD_SINGLE;
  YAMATA_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
  if (provided < MPI_THREAD_FUNNELED)
    throw ClusterError("this MPI cannot be used by a program with threads; install one built with thread support");
  YAMATA_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));

  char name[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  YAMATA_MPI(MPI_Get_processor_name(name, &length));
  host_.assign(name, static_cast<std::size_t>(length));

  MPI_Comm local = MPI_COMM_NULL;
  YAMATA_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local));
  YAMATA_MPI(MPI_Comm_rank(local, &local_rank_));
  YAMATA_MPI(MPI_Comm_size(local, &local_size_));
  YAMATA_MPI(MPI_Comm_free(&local));
}

MpiSession::~MpiSession() {
  // Finalize waits for all ranks; one that unwinds with an error must not.
  if (std::uncaught_exceptions() == 0) {
    MPI_Finalize();
  } else {
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::kCluster));
  }
}

}  // namespace yamata
