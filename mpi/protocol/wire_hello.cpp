#include "mpi/protocol/wire_hello.hpp"

namespace yamata::wire {

Bytes encode(const Hello& m) {
  Writer out;
  out.put(m.protocol)
      .put_text(m.version)
      .put_text(m.host)
      .put_text(m.isa)
      .put_all(std::span<const std::uint64_t>(m.fingerprints))
      .put(m.available_bytes)
      .put(m.threads)
      .put(m.model)
      .put(m.machine)
      .put_text(m.cpu)
      .put_text(m.cpu_group)
      .put(m.logical_cpus)
      .put(m.threads_measured_s)
      .put_text(m.device)
      .put(m.device_layers)
      .put(m.device_copies)
      .put(m.device_is_unified)
      .put(m.device_bytes)
      .put(m.device_drafts)
      .put(m.fetches_to_memory)
      .put_text(m.no_device);
  return out.take();
}

Hello decode_hello(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Hello m;
  m.protocol = in.get<std::uint32_t>();
  if (m.protocol != kProtocolVersion) return m;  // the rest may be in another format
  m.version = in.get_text();
  m.host = in.get_text();
  m.isa = in.get_text();
  m.fingerprints = in.get_all<std::uint64_t>();
  m.available_bytes = in.get<std::uint64_t>();
  m.threads = in.get<std::int32_t>();
  m.model = in.get<std::int32_t>();
  m.machine = in.get<std::uint64_t>();
  m.cpu = in.get_text();
  m.cpu_group = in.get_text();
  m.logical_cpus = in.get<std::int32_t>();
  m.threads_measured_s = in.get<std::int64_t>();
  m.device = in.get_text();
  m.device_layers = in.get<std::int32_t>();
  m.device_copies = in.get<std::int32_t>();
  m.device_is_unified = in.get<std::int32_t>();
  m.device_bytes = in.get<std::uint64_t>();
  m.device_drafts = in.get<std::int32_t>();
  m.fetches_to_memory = in.get<std::int32_t>();
  m.no_device = in.get_text();
  in.end();
  return m;
}

}  // namespace yamata::wire
