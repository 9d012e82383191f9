#include "mpi/protocol/wire_status.hpp"

#include <cstddef>
#include <cstring>

namespace yamata::wire {

Bytes encode(const Heartbeat& m) {
  return Writer()
      .put(m.progress)
      .put(m.activity)
      .put(m.loaded_permille)
      .put(m.awaits)
      .put<std::uint8_t>(m.asks)
      .put_all(std::span<const std::int32_t>(m.hears))
      .put_all(std::span<const std::int32_t>(m.receives))
      .put<std::uint8_t>(m.can_lose_drafters)
      .put<std::uint8_t>(m.serving)
      .take();
}

Heartbeat decode_heartbeat(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Heartbeat m;
  m.progress = in.get<std::uint64_t>();
  m.activity = in.get<Activity>();
  m.loaded_permille = in.get<std::uint16_t>();
  m.awaits = in.get<std::int32_t>();
  m.asks = in.get<std::uint8_t>() != 0;
  m.hears = in.get_all<std::int32_t>();
  m.receives = in.get_all<std::int32_t>();
  m.can_lose_drafters = in.get<std::uint8_t>() != 0;
  m.serving = in.get<std::uint8_t>() != 0;
  in.end();
  return m;
}

Bytes encode(const Failure& m) { return Writer().put(m.code).put_text(m.text).put<std::uint8_t>(m.ends_job).take(); }

Failure decode_failure(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Failure m;
  m.code = in.get<std::int32_t>();
  m.text = in.get_text();
  m.ends_job = in.get<std::uint8_t>() != 0;
  in.end();
  return m;
}

Bytes encode(const Report& m) {
  Writer out;
  out.put_text(m.host).put_text(m.role).put_text(m.isa).put_text(m.device);
  return out.put(m.layers)
      .put(m.threads)
      .put(m.busy_s)
      .put(m.wait_s)
      .put(m.wait_cpu_s)
      .put(m.share)
      .put(m.exchange_s)
      .put(m.copy_wait_s)
      .put(m.copied_bytes)
      .put(m.draft_s)
      .put(m.candidates_s)
      .put(m.device_peak_bytes)
      .put(m.bytes_sent)
      .put(m.feature_bytes)
      .put(m.rss_bytes)
      .put(m.mapped_bytes)
      .put(m.fetched_bytes)
      .put(m.runs)
      .put(m.runs_skipped)
      .put(m.tokens_skipped)
      .put_all(std::span<const TraceEvent>(m.events))
      .put_all(std::span<const double>(m.run_s))
      .put_all(std::span<const double>(m.draft_run_s))
      .take();
}

namespace {

/// A byte that is neither 0 nor 1 must not be read as a bool.
std::vector<TraceEvent> decode_events(Reader& in) {
  std::vector<TraceEvent> events(in.count(sizeof(TraceEvent)));
  for (TraceEvent& event : events) {
    const std::byte* from = in.take(sizeof(TraceEvent));
    if (from[offsetof(TraceEvent, draft)] > std::byte{1}) Reader::fail();
    std::memcpy(&event, from, sizeof(TraceEvent));
  }
  return events;
}

}  // namespace

Report decode_report(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Report m;
  m.host = in.get_text();
  m.role = in.get_text();
  m.isa = in.get_text();
  m.device = in.get_text();
  m.layers = in.get<LayerRange>();
  m.threads = in.get<std::int32_t>();
  m.busy_s = in.get<double>();
  m.wait_s = in.get<double>();
  m.wait_cpu_s = in.get<double>();
  m.share = in.get<double>();
  m.exchange_s = in.get<double>();
  m.copy_wait_s = in.get<double>();
  m.copied_bytes = in.get<std::uint64_t>();
  m.draft_s = in.get<double>();
  m.candidates_s = in.get<double>();
  m.device_peak_bytes = in.get<std::uint64_t>();
  m.bytes_sent = in.get<std::uint64_t>();
  m.feature_bytes = in.get<std::uint64_t>();
  m.rss_bytes = in.get<std::uint64_t>();
  m.mapped_bytes = in.get<std::uint64_t>();
  m.fetched_bytes = in.get<std::uint64_t>();
  m.runs = in.get<std::uint64_t>();
  m.runs_skipped = in.get<std::uint64_t>();
  m.tokens_skipped = in.get<std::uint64_t>();
  m.events = decode_events(in);
  m.run_s = in.get_all<double>();
  m.draft_run_s = in.get_all<double>();
  in.end();
  return m;
}

Bytes encode_stop(std::int32_t code) { return Writer().put(code).take(); }

std::int32_t decode_stop(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const auto code = in.get<std::int32_t>();
  in.end();
  return code;
}

}  // namespace yamata::wire
