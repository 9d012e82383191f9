#include "mpi/protocol/wire_guesses.hpp"

namespace yamata::wire {

Bytes encode(const Commit& m) {
  return Writer()
      .put(m.request)
      .put(m.epoch)
      .put(m.position)
      .put(m.min_drafts)
      .put(m.min_path_probability)
      .put(m.resend)
      .put(m.model)
      .put_all(std::span<const std::int32_t>(m.tokens))
      .put_all(std::span<const float>(m.features))
      .put(m.ended)
      .take();
}

Commit decode_commit(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Commit m;
  m.request = in.get<std::uint64_t>();
  m.epoch = in.get<std::uint64_t>();
  m.position = in.get<std::int32_t>();
  m.min_drafts = in.get<std::int32_t>();
  m.min_path_probability = in.get<float>();
  m.resend = in.get<std::uint8_t>() != 0;
  m.model = in.get<std::int32_t>();
  m.tokens = in.get_all<std::int32_t>();
  m.features = in.get_all<float>();
  m.ended = in.get<std::uint8_t>() != 0;
  in.end();
  return m;
}

Bytes encode(const Guesses& m) {
  return Writer()
      .put(m.request)
      .put(m.epoch)
      .put(m.root)
      .put(m.root_position)
      .put(m.complete)
      .put(m.evaluation_s)
      .put(m.model)
      .put_all(std::span<const Guess>(m.guesses))
      .take();
}

Guesses decode_guesses(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Guesses m;
  m.request = in.get<std::uint64_t>();
  m.epoch = in.get<std::uint64_t>();
  m.root = in.get<std::uint32_t>();
  m.root_position = in.get<std::int32_t>();
  m.complete = in.get<std::uint8_t>() != 0;
  m.evaluation_s = in.get<double>();
  m.model = in.get<std::int32_t>();
  m.guesses = in.get_all<Guess>();
  in.end();
  return m;
}

}  // namespace yamata::wire
