#include "mpi/protocol/wire.hpp"

#include <cstddef>
#include <cstring>

#include "mpi/protocol/byte_stream.hpp"
#include "node/error.hpp"

namespace yamata::wire {
namespace {

template <class T>
T decode_plain(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const T value = in.get<T>();
  in.end();
  return value;
}

}  // namespace

std::vector<std::vector<int>> PipelinePlan::stages() const {
  std::vector<std::vector<int>> stages;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == 0 || layers[i].begin != layers[i - 1].begin) stages.emplace_back();
    stages.back().push_back(ranks[i]);
  }
  return stages;
}

GroupMember PipelinePlan::member(std::size_t place) const {
  GroupMember member{{}, 0, nullptr};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (layers[i].begin != layers[place].begin) continue;
    if (i == place) member.member = static_cast<int>(member.shares.size());
    member.shares.push_back(shares.empty() ? 1 : shares[i]);
  }
  return member;
}

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
      .put(m.device_is_unified)
      .put(m.device_bytes)
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
  m.device_is_unified = in.get<std::int32_t>();
  m.device_bytes = in.get<std::uint64_t>();
  m.no_device = in.get_text();
  in.end();
  return m;
}

Bytes encode(const Start& m) {
  Writer out;
  out.put(m.cache_types)
      .put(m.batch)
      .put(m.trace)
      .put_text(m.head_host)
      .put(m.head_time_us)
      .put(m.draft.width)
      .put(m.draft.children)
      .put(m.draft.credit)
      .put(m.draft.threshold)
      .put_all(std::span<const StaticTree::Node>(m.draft.shape.nodes))
      .put(m.draft.depth)
      .put(static_cast<std::uint64_t>(m.pipelines.size()));
  for (const PipelinePlan& p : m.pipelines)
    out.put(p.model)
        .put_all(std::span<const std::int32_t>(p.ranks))
        .put_all(std::span<const LayerRange>(p.layers))
        .put(p.cells)
        .put(p.sequences)
        .put_all(std::span<const std::uint8_t>(p.packed))
        .put_all(std::span<const double>(p.shares))
        .put(p.window_cells);
  return out.take();
}

Start decode_start(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Start m;
  m.cache_types = in.get<CacheTypes>();
  m.batch = in.get<std::int32_t>();
  m.trace = in.get<std::uint8_t>() != 0;
  m.head_host = in.get_text();
  m.head_time_us = in.get<std::int64_t>();
  m.draft.width = in.get<std::int32_t>();
  m.draft.children = in.get<std::int32_t>();
  m.draft.credit = in.get<std::int32_t>();
  m.draft.threshold = in.get<float>();
  m.draft.shape.nodes = in.get_all<StaticTree::Node>();
  m.draft.depth = in.get<std::int32_t>();
  // least bytes of a plan: its numbers and four lengths
  constexpr std::size_t kMinBytes = 4 * sizeof(std::int32_t) + 4 * sizeof(std::uint64_t);
  m.pipelines.resize(in.count(kMinBytes));
  for (PipelinePlan& p : m.pipelines) {
    p.model = in.get<std::int32_t>();
    p.ranks = in.get_all<std::int32_t>();
    p.layers = in.get_all<LayerRange>();
    p.cells = in.get<std::int32_t>();
    p.sequences = in.get<std::int32_t>();
    p.packed = in.get_all<std::uint8_t>();
    p.shares = in.get_all<double>();
    p.window_cells = in.get<std::int32_t>();
  }
  in.end();
  return m;
}

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

Bytes encode_cancel(std::span<const std::uint64_t> runs) { return Writer().put_all(runs).take(); }

std::vector<std::uint64_t> decode_cancel(std::span<const std::byte> bytes) {
  Reader in(bytes);
  auto runs = in.get_all<std::uint64_t>();
  in.end();
  return runs;
}

namespace {

// Fields that most messages lack need no bytes in them: these bits say that the field follows.
constexpr std::uint32_t kRecordHasFeatures = 1u << 31, kRecordBringsFeatures = 1u << 30,
                        kRecordWantsSums = 1u << 29;  // bits in Record::best
constexpr std::uint32_t kSkipped = 1, kRowsHaveFeatures = 2, kRowsHaveSums = 4;

}  // namespace

Bytes encode(const Record& m) {
  Writer out;
  out.put_all(std::span<const CacheOperation>(m.operations)).put(m.run).put_all(std::span<const std::int32_t>(m.tokens));
  out.put_all(std::span<const Placement>(m.placements)).put_all(std::span<const std::int32_t>(m.logit_rows));
  out.put(static_cast<std::uint32_t>(m.best) | (m.feature_rows.empty() ? 0 : kRecordHasFeatures) |
          (m.features.empty() ? 0 : kRecordBringsFeatures) | (m.sums ? kRecordWantsSums : 0));
  if (!m.feature_rows.empty())
    out.put_all(std::span<const std::int32_t>(m.feature_rows)).put_all(std::span<const std::int32_t>(m.feature_layers));
  if (!m.features.empty()) out.put_all(std::span<const float>(m.features));
  return out.take();
}

Record decode_record(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Record m;
  m.operations = in.get_all<CacheOperation>();
  m.run = in.get<std::uint64_t>();
  m.tokens = in.get_all<std::int32_t>();
  m.placements = in.get_all<Placement>();
  m.logit_rows = in.get_all<std::int32_t>();
  const auto best = in.get<std::uint32_t>();
  m.best = static_cast<std::int32_t>(best & ~(kRecordHasFeatures | kRecordBringsFeatures | kRecordWantsSums));
  m.sums = (best & kRecordWantsSums) != 0;
  if (best & kRecordHasFeatures) {
    m.feature_rows = in.get_all<std::int32_t>();
    m.feature_layers = in.get_all<std::int32_t>();
  }
  if (best & kRecordBringsFeatures) m.features = in.get_all<float>();
  in.end();
  if (m.placements.size() != m.tokens.size()) Reader::fail();
  return m;
}

Bytes encode(const Rows& m) {
  Writer out;
  out.reserve(40 + m.values.size_bytes() + m.tokens.size_bytes() + m.sums.size_bytes() + m.features.size_bytes());
  // Four bytes for the flags, so that the floats stay aligned.
  out.put(m.run).put((m.skipped ? kSkipped : 0) | (m.features.empty() ? 0 : kRowsHaveFeatures) | (m.sums.empty() ? 0 : kRowsHaveSums));
  out.put(m.vocabulary).put_all(m.values).put_all(m.tokens);
  if (!m.sums.empty()) out.put_all(m.sums);
  if (!m.features.empty()) out.put_all(m.features);
  return out.take();
}

Rows decode_rows(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Rows m;
  m.run = in.get<std::uint64_t>();
  const auto flags = in.get<std::uint32_t>();
  m.skipped = (flags & kSkipped) != 0;
  m.vocabulary = in.get<std::uint32_t>();
  m.values = in.view_all<float>();
  m.tokens = in.view_all<std::int32_t>();
  if (flags & kRowsHaveSums) m.sums = in.view_all<float>();
  if (flags & kRowsHaveFeatures) m.features = in.view_all<float>();
  in.end();
  if (flags > (kSkipped | kRowsHaveFeatures | kRowsHaveSums)) Reader::fail();
  if (!m.tokens.empty() && m.tokens.size() != m.values.size()) Reader::fail();
  for (const std::int32_t token : m.tokens) {
    if (token < -1 || token >= static_cast<std::int64_t>(m.vocabulary)) Reader::fail();
  }
  return m;
}

Bytes encode(const Heartbeat& m) {
  return Writer()
      .put(m.progress)
      .put(m.activity)
      .put(m.loaded_permille)
      .put(m.awaits)
      .put<std::uint8_t>(m.asks)
      .put_all(std::span<const std::int32_t>(m.hears))
      .put_all(std::span<const std::int32_t>(m.receives))
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
      .put(m.bytes_sent)
      .put(m.feature_bytes)
      .put(m.rss_bytes)
      .put(m.mapped_bytes)
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
  m.bytes_sent = in.get<std::uint64_t>();
  m.feature_bytes = in.get<std::uint64_t>();
  m.rss_bytes = in.get<std::uint64_t>();
  m.mapped_bytes = in.get<std::uint64_t>();
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

std::int32_t decode_stop(std::span<const std::byte> bytes) { return decode_plain<std::int32_t>(bytes); }

}  // namespace yamata::wire
