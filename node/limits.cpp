#include "node/limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <thread>
#include <vector>

namespace yamata {

namespace {

std::optional<std::uint64_t> limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace

std::optional<std::uint64_t> memory_limit() { return limit_of(RLIMIT_AS); }

std::optional<std::uint64_t> file_limit() { return limit_of(RLIMIT_NOFILE); }

std::optional<std::uint64_t> file_size_limit() { return limit_of(RLIMIT_FSIZE); }

bool can_start_threads(int count) {
  std::promise<void> done;
  const std::shared_future<void> end = done.get_future().share();
  std::vector<std::thread> threads;
  try {
    while (count-- > 0) threads.emplace_back([end] { end.wait(); });
  } catch (const std::system_error&) {
  }
  done.set_value();
  for (std::thread& thread : threads) thread.join();
  return count < 0;
}

std::uint64_t mapped_memory() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::string or_raise_memory_limit() {
  const auto limit = memory_limit();
  return limit ? fmt::format(", or raise ulimit -v, which allows {} MiB", *limit >> 20) : "";
}

ModelError refused(const std::system_error& error) {
  const bool limited = error.code() == std::errc::resource_unavailable_try_again || error.code() == std::errc::not_enough_memory;
  if (limited) return ModelError(fmt::format("cannot start a thread: {}; {}", error.code().message(), kRaiseLimits));
  return ModelError(fmt::format("{}; check the files and folders that the flags name", error.what()));
}

}  // namespace yamata
