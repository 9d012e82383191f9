#include "mpi/wire.hpp"

#include <cstring>
#include <type_traits>

#include "node/error.hpp"

namespace yamata::wire {
namespace {

class Writer {
 public:
  template <class T>
  Writer& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof(T));
    return *this;
  }
  template <class T>
  Writer& put_all(std::span<const T> values) {
    const auto* p = reinterpret_cast<const std::byte*>(values.data());
    put(static_cast<std::uint64_t>(values.size()));
    bytes_.insert(bytes_.end(), p, p + values.size_bytes());
    return *this;
  }
  Writer& put_text(const std::string& text) { return put_all(std::span<const char>(text)); }
  void reserve(std::size_t n) { bytes_.reserve(n); }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }
  template <class T>
  std::vector<T> get_all() {
    const std::size_t n = count<T>();
    std::vector<T> values(n);
    if (n) std::memcpy(values.data(), take(n * sizeof(T)), n * sizeof(T));
    return values;
  }
  template <class T>
  std::span<const T> view_all() {
    const std::size_t n = count<T>();
    return {reinterpret_cast<const T*>(take(n * sizeof(T))), n};
  }
  std::string get_text() {
    const auto text = get_all<char>();
    return {text.begin(), text.end()};
  }
  void end() const {
    if (!rest_.empty()) fail();
  }

 private:
  [[noreturn]] static void fail() {
    throw ClusterError("a message from another rank is damaged; do all ranks run the same yamata?");
  }
  const std::byte* take(std::size_t n) {
    if (n > rest_.size()) fail();
    const std::byte* p = rest_.data();
    rest_ = rest_.subspan(n);
    return p;
  }
  template <class T>
  std::size_t count() {
    const auto n = get<std::uint64_t>();
    if (n > rest_.size() / sizeof(T)) fail();
    return static_cast<std::size_t>(n);
  }
  std::span<const std::byte> rest_;
};

template <class T>
T decode_plain(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const T value = in.get<T>();
  in.end();
  return value;
}

}  // namespace

Bytes encode(const Hello& m) {
  return Writer().put(m.protocol).put_text(m.version).put_text(m.host).put_text(m.isa).put(m.fingerprint).put(m.available_bytes).put(m.threads).take();
}

Hello decode_hello(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Hello m;
  m.protocol = in.get<std::uint32_t>();
  if (m.protocol != kProtocolVersion) return m;  // the rest may look different
  m.version = in.get_text();
  m.host = in.get_text();
  m.isa = in.get_text();
  m.fingerprint = in.get<std::uint64_t>();
  m.available_bytes = in.get<std::uint64_t>();
  m.threads = in.get<std::int32_t>();
  in.end();
  return m;
}

Bytes encode(const Start& m) {
  return Writer().put_all(std::span<const LayerRange>(m.layers)).put(m.cells).put(m.sequences).put(m.cache_type).take();
}

Start decode_start(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Start m;
  m.layers = in.get_all<LayerRange>();
  m.cells = in.get<std::int32_t>();
  m.sequences = in.get<std::int32_t>();
  m.cache_type = in.get<CacheType>();
  in.end();
  return m;
}

Bytes encode(const Record& m) {
  Writer out;
  out.put(m.kind);
  if (m.kind == RecordKind::kRun) {
    out.put(m.run).put_all(std::span<const std::int32_t>(m.tokens)).put_all(std::span<const Placement>(m.placements));
    out.put_all(std::span<const std::int32_t>(m.wanted));
  } else {
    out.put(m.from).put(m.sequences).put(m.positions);
  }
  return out.take();
}

Record decode_record(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Record m;
  m.kind = in.get<RecordKind>();
  if (m.kind == RecordKind::kRun) {
    m.run = in.get<std::uint64_t>();
    m.tokens = in.get_all<std::int32_t>();
    m.placements = in.get_all<Placement>();
    m.wanted = in.get_all<std::int32_t>();
  } else {
    m.from = in.get<std::int32_t>();
    m.sequences = in.get<SequenceRange>();
    m.positions = in.get<PositionRange>();
  }
  in.end();
  return m;
}

Bytes encode(const Rows& m) {
  Writer out;
  out.reserve(16 + m.values.size_bytes());
  return out.put(m.run).put_all(m.values).take();
}

Rows decode_rows(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Rows m;
  m.run = in.get<std::uint64_t>();
  m.values = in.view_all<float>();
  in.end();
  return m;
}

Bytes encode(const Heartbeat& m) { return Writer().put(m.progress).put(m.activity).put(m.loaded_permille).take(); }

Heartbeat decode_heartbeat(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Heartbeat m;
  m.progress = in.get<std::uint64_t>();
  m.activity = in.get<Activity>();
  m.loaded_permille = in.get<std::uint16_t>();
  in.end();
  return m;
}

Bytes encode(const Failure& m) { return Writer().put(m.code).put_text(m.text).take(); }

Failure decode_failure(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Failure m;
  m.code = in.get<std::int32_t>();
  m.text = in.get_text();
  in.end();
  return m;
}

Bytes encode(const Report& m) {
  Writer out;
  out.put_text(m.host).put_text(m.role).put_text(m.isa).put_text(m.device);
  return out.put(m.layers).put(m.busy_s).put(m.wait_s).put(m.bytes_sent).put(m.rss_bytes).put(m.mapped_bytes).take();
}

Report decode_report(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Report m;
  m.host = in.get_text();
  m.role = in.get_text();
  m.isa = in.get_text();
  m.device = in.get_text();
  m.layers = in.get<LayerRange>();
  m.busy_s = in.get<double>();
  m.wait_s = in.get<double>();
  m.bytes_sent = in.get<std::uint64_t>();
  m.rss_bytes = in.get<std::uint64_t>();
  m.mapped_bytes = in.get<std::uint64_t>();
  in.end();
  return m;
}

Bytes encode_stop(std::int32_t code) { return Writer().put(code).take(); }

std::int32_t decode_stop(std::span<const std::byte> bytes) { return decode_plain<std::int32_t>(bytes); }

}  // namespace yamata::wire
