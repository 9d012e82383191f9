#include "mpi/transport/mpi_session.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

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
  void* pmix = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD);  // Open MPI uses PMIx to talk to its launcher
  const auto abort = pmix ? reinterpret_cast<int (*)(int, const char*, void*, std::size_t)>(dlsym(pmix, "PMIx_Abort")) : nullptr;
  return abort && abort(code, nullptr, nullptr, 0) == 0;
}

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  const std::string_view name(call);
  throw ClusterError(fmt::format("{} failed: {}; look at the network between the machines", name.substr(0, name.find('(')), text));
}

namespace {

/// For a message above the eager limit of 64 KiB, Open MPI's TCP transport first announces it and waits for the answer: one more round trip
/// for activations of wide runs and for logits. With a higher limit no message is announced. The transport's free lists grow by a few
/// buffers of that size at a time; their pages become resident only as far as they are filled.
/// After a connection is lost, Open MPI looks at the others only once in an event tick: 10 ms by default, now 0.1 ms. Otherwise a text
/// whose drafter was killed takes 1.5 times as long.
constexpr std::pair<const char*, const char*> kTcpSettings[] = {
    {"btl_tcp_eager_limit", "8388608"}, {"btl_tcp_rndv_eager_limit", "8388608"}, {"btl_tcp_max_send_size", "8388608"},
    {"btl_tcp_free_list_num", "2"},     {"btl_tcp_free_list_inc", "2"},          {"mpi_event_tick_rate", "100"}};

/// Sets Open MPI's parameters that the user has not set by a flag, in the environment or in a parameter file.
void set_tcp_buffers() {
  const char* home = std::getenv("HOME");
  std::ifstream file(std::string(home ? home : "") + "/.openmpi/mca-params.conf");
  const std::string own{std::istreambuf_iterator<char>(file), {}};
  for (const auto& [name, value] : kTcpSettings) {
    if (own.find(name) == std::string::npos) setenv(("OMPI_MCA_" + std::string(name)).c_str(), value, 0);
  }
}

}  // namespace

MpiSession::MpiSession() {
  set_tcp_buffers();
  int provided = MPI_THREAD_SINGLE;
  YAMATA_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided));
  if (provided < MPI_THREAD_SERIALIZED)
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
  // MPI_Finalize waits for all ranks; a rank that ends with an error must not call it.
  if (std::uncaught_exceptions() == 0) {
    MPI_Finalize();
  } else {
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::kCluster));
  }
}

}  // namespace yamata
