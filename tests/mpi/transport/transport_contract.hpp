#pragma once
// The guarantees of every Transport, as a scenario for all ranks.
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include "mpi/transport/transport.hpp"

namespace yamata {

/// Every rank sends numbered messages of several sizes with two tags to every rank, including itself, and receives all. Throws
/// std::runtime_error if one is lost, duplicated, damaged or out of order for its source and tag. Returns how many
/// parts of large messages were announced.
inline int play_transport_contract(Transport& transport) {
  constexpr std::uint32_t kMessages = 200;
  constexpr Tag kTags[] = {Tag::kRecord, Tag::kActivations};
  const auto ranks = static_cast<std::size_t>(transport.size());
  const auto size_of = [](std::uint32_t number) -> std::size_t { return number % 50 == 49 ? 3u << 20 : 4 + number * 37 % 5000; };

  for (std::uint32_t number = 0; number < kMessages; ++number) {
    for (int to = 0; to < transport.size(); ++to) {
      for (const Tag tag : kTags) {
        std::vector<std::byte> bytes(size_of(number), static_cast<std::byte>(number));
        std::memcpy(bytes.data(), &number, sizeof(number));
        transport.send(to, tag, std::move(bytes));
      }
    }
  }
  int parts = 0;
  std::vector<std::uint32_t> next(ranks * 2, 0);
  for (std::size_t due = ranks * 2 * kMessages; due > 0;) {
    const auto message = transport.receive();
    if (!message) {
      std::this_thread::yield();
      continue;
    }
    if (message->tag == Tag::kPart) {
      ++parts;
      continue;
    }
    --due;
    std::uint32_t& expected = next.at(static_cast<std::size_t>(message->from) * 2 + (message->tag == Tag::kActivations ? 1 : 0));
    std::uint32_t number = 0;
    std::memcpy(&number, message->bytes.data(), sizeof(number));
    if (number != expected)
      throw std::runtime_error("message " + std::to_string(number) + " came where " + std::to_string(expected) + " was due");
    if (message->bytes.size() != size_of(number) || message->bytes.back() != static_cast<std::byte>(number))
      throw std::runtime_error("a message is damaged");
    ++expected;
  }
  while (transport.pending_sends() > 0) {
    if (transport.receive()) throw std::runtime_error("one message too many");
  }
  return parts;
}

}  // namespace yamata
