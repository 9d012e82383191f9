// libFuzzer harness: any bytes are either a message of the kind that the first byte selects, or give a ClusterError.
#include <cstdint>
#include <span>

#include "node/error.hpp"
#include "tests/mpi/protocol/messages.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto& kinds = yamata::test::message_kinds();
  if (size == 0 || data[0] >= kinds.size()) return 0;
  const auto message = std::as_bytes(std::span(data, size)).subspan(1);
  try {
    kinds[data[0]].take({message.begin(), message.end()});  // a copy is aligned, like received messages
  } catch (const yamata::ClusterError&) {
    return 0;
  }
  return 0;
}
