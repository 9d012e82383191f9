#include "mpi/cluster/left_out.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "node/detached_thread.hpp"

namespace yamata {
namespace {

// Types of PMIx, with which Open MPI talks to its launcher; its headers need not be installed. The launcher (with Open MPI 4, mpirun) keeps
// what the processes of a job publish.
constexpr std::size_t kKeySize = 512;
struct Value {
  std::uint16_t type = 0;
  alignas(8) const char* string = nullptr;
  std::byte larger_types[16]{};
};
struct Info {
  char key[kKeySize]{};
  std::uint32_t flags = 0;
  Value value;
};
struct Found {
  char job[256]{};
  std::uint32_t publisher = 0;
  char key[kKeySize]{};
  Value value;
};
static_assert(sizeof(Value) == 32 && sizeof(Info) == 552 && sizeof(Found) == 808);
constexpr std::uint16_t kString = 3;
constexpr int kSuccess = 0;

/// A function of the PMIx library that MPI has loaded, or nothing.
template <class Function>
Function* function_of_pmix(const char* name) {
  void* pmix = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD);
  return pmix ? reinterpret_cast<Function*>(dlsym(pmix, name)) : nullptr;
}

template <class Named>
Named with_key(int rank) {
  Named named;
  const std::string key = fmt::format("yamata.left-out.{}", rank);
  std::copy(key.begin(), key.end(), named.key);
  return named;
}

}  // namespace

void announce_left_out(int rank) {
  const auto publish = function_of_pmix<int(const Info*, std::size_t)>("PMIx_Publish");
  if (!publish) return;
  try_detached([publish, rank] {
    auto info = with_key<Info>(rank);
    info.value.type = kString;
    info.value.string = "yes";
    publish(&info, 1);
  });
}

bool is_announced_left_out(int rank) {
  const auto look_up = function_of_pmix<int(Found*, std::size_t, const Info*, std::size_t)>("PMIx_Lookup");
  auto found = with_key<Found>(rank);
  return look_up && look_up(&found, 1, nullptr, 0) == kSuccess && found.value.type == kString;
}

}  // namespace yamata
