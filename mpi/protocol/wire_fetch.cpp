#include "mpi/protocol/wire_fetch.hpp"

#include <cstring>

#include "node/checksum.hpp"

namespace yamata::wire {
namespace {

// With a flipped bit in what decides which weights are where, the text would be wrong without an error.

void append_checksum(Bytes& message) {
  const std::uint64_t sum = checksum(message);
  message.resize(message.size() + sizeof(sum));
  std::memcpy(message.data() + message.size() - sizeof(sum), &sum, sizeof(sum));
}

std::span<const std::byte> without_checksum(std::span<const std::byte> message) {
  std::uint64_t sum = 0;
  if (message.size() < sizeof(sum)) Reader::fail();
  const auto rest = message.first(message.size() - sizeof(sum));
  std::memcpy(&sum, message.data() + rest.size(), sizeof(sum));
  if (sum != checksum(rest)) Reader::fail();
  return rest;
}

/// Of what a chunk is, without its bytes.
std::uint64_t label_checksum(const Chunk& m) {
  const std::uint64_t label[] = {static_cast<std::uint64_t>(m.model), m.chunk, m.checksum};
  return checksum(std::as_bytes(std::span(label)));
}

}  // namespace

Bytes encode(const AskFiles& m) { return Writer().put(m.model).take(); }

AskFiles decode_ask_files(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const AskFiles m{in.get<std::int32_t>()};
  in.end();
  return m;
}

Bytes encode(const ModelFiles& m) {
  Writer out;
  out.put(m.model).put(m.shape.fingerprint).put_text(m.shape.name).put(static_cast<std::uint64_t>(m.shape.parts.size()));
  for (const fetch::PartShape& part : m.shape.parts)
    out.put_text(part.name).put(part.bytes).put_all(std::span<const std::byte>(part.header));
  Bytes message = out.take();
  append_checksum(message);
  return message;
}

ModelFiles decode_model_files(std::span<const std::byte> bytes) {
  constexpr std::size_t kLeastBytes = 3 * sizeof(std::uint64_t);  // of a part
  Reader in(without_checksum(bytes));
  ModelFiles m;
  m.model = in.get<std::int32_t>();
  m.shape.fingerprint = in.get<std::uint64_t>();
  m.shape.name = in.get_text();
  m.shape.parts.resize(in.count(kLeastBytes));
  for (fetch::PartShape& part : m.shape.parts) {
    part.name = in.get_text();
    part.bytes = in.get<std::uint64_t>();
    part.header = in.get_all<std::byte>();
  }
  in.end();
  fetch::validate(m.shape);
  return m;
}

Bytes encode(const AskChunk& m) { return Writer().put(m.model).put(m.chunk).take(); }

AskChunk decode_ask_chunk(std::span<const std::byte> bytes) {
  Reader in(bytes);
  AskChunk m;
  m.model = in.get<std::int32_t>();
  m.chunk = in.get<std::uint64_t>();
  in.end();
  return m;
}

Bytes encode(const Chunk& m) {
  Writer out;
  out.reserve(m.bytes.size() + 64);
  return out.put(m.model).put(m.chunk).put(m.checksum).put(label_checksum(m)).put_all(m.bytes).take();
}

Chunk decode_chunk(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Chunk m;
  m.model = in.get<std::int32_t>();
  m.chunk = in.get<std::uint64_t>();
  m.checksum = in.get<std::uint64_t>();
  if (in.get<std::uint64_t>() != label_checksum(m)) Reader::fail();
  m.bytes = in.view_all<std::byte>();
  in.end();
  return m;
}

}  // namespace yamata::wire
