#include "node/limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

namespace yamata {

std::string or_raise_memory_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format(", or raise ulimit -v, which allows {} MiB", limit.rlim_cur >> 20);
}

ModelError refused(const std::system_error& error) {
  const bool limited = error.code() == std::errc::resource_unavailable_try_again || error.code() == std::errc::not_enough_memory;
  if (limited) return ModelError(fmt::format("cannot start a thread: {}; {}", error.code().message(), kRaiseLimits));
  return ModelError(fmt::format("{}; check the files and folders that the flags name", error.what()));
}

}  // namespace yamata
