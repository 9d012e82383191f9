#pragma once
// Errors of a process that gets little memory.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "node/error.hpp"

// sanitizers cannot work in little memory
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define YAMATA_TEST_LITTLE_MEMORY
#endif

namespace yamata::test {

/// For EXPECT_EXIT: limits this process to 64 MiB more than it has, and ends it with the message and code of the error that `use` throws.
template <class Use>
[[noreturn]] void end_in_little_memory(Use use) {
  std::ifstream sizes("/proc/self/statm");
  rlim_t pages = 0;
  sizes >> pages;
  const rlim_t more = 64 << 20, all = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + more;
  const rlimit limit{all, all};
  setrlimit(RLIMIT_AS, &limit);
  try {
    use();
  } catch (const Error& e) {
    std::fputs(e.what(), stderr);
    std::_Exit(static_cast<int>(e.code()));
  }
  std::_Exit(0);
}

}  // namespace yamata::test
