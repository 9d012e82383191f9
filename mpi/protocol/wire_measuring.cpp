#include "mpi/protocol/wire_measuring.hpp"

namespace yamata::wire {

Bytes encode(const Measured& m) { return Writer().put(m.ns_per_byte).put_all(std::span<const double>(m.width_multiples)).take(); }

Measured decode_measured(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Measured m;
  m.ns_per_byte = in.get<double>();
  m.width_multiples = in.get_all<double>();
  in.end();
  return m;
}

Bytes encode(const Probe& m) {
  Writer out;
  out.put(m.number).put_all(std::span<const std::byte>(m.padding));
  return out.take();
}

Probe decode_probe(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Probe m;
  m.number = in.get<std::uint32_t>();
  m.padding = in.get_all<std::byte>();
  in.end();
  return m;
}

Bytes encode(const BenchmarkRequest& m) {
  return Writer()
      .put_all(std::span<const std::int32_t>(m.ranks))
      .put_all(std::span<const double>(m.shares))
      .put(m.layer)
      .put(m.layers)
      .put(m.runs)
      .take();
}

BenchmarkRequest decode_benchmark_request(std::span<const std::byte> bytes) {
  Reader in(bytes);
  BenchmarkRequest m;
  m.ranks = in.get_all<std::int32_t>();
  m.shares = in.get_all<double>();
  m.layer = in.get<std::int32_t>();
  m.layers = in.get<std::int32_t>();
  m.runs = in.get<std::int32_t>();
  in.end();
  return m;
}

Bytes encode(const BenchmarkResult& m) { return Writer().put(m.computing_s).put(m.exchange_s).take(); }

BenchmarkResult decode_benchmark_result(std::span<const std::byte> bytes) {
  Reader in(bytes);
  BenchmarkResult m;
  m.computing_s = in.get<double>();
  m.exchange_s = in.get<double>();
  in.end();
  return m;
}

}  // namespace yamata::wire
