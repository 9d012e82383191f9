#pragma once
// A transport of rank 0 that sends nothing and receives nothing, for tests that override what they watch.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "mpi/transport/transport.hpp"

namespace yamata::test {

class SilentTransport : public Transport {
 public:
  explicit SilentTransport(int size) : size_(size) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  void send(int, Tag, std::vector<std::byte>) override {}
  std::optional<Message> receive() override { return std::nullopt; }
  std::size_t pending_sends() const override { return 0; }
  std::uint64_t bytes_sent() const override { return 0; }
  void forget(int) override {}
  bool forgotten(int) const override { return false; }
  [[noreturn]] void abort(int) override { throw std::logic_error("abort"); }

 private:
  const int size_;
};

}  // namespace yamata::test
