#include "mpi/protocol/wire_runs.hpp"

namespace yamata::wire {

namespace {

// Fields that most messages lack need no bytes in them: these bits say that the field follows.
constexpr std::uint32_t kRecordHasFeatures = 1u << 31, kRecordBringsFeatures = 1u << 30, kRecordWantsSums = 1u << 29,
                        kRecordHasLikelyRow = 1u << 28;  // bits in Record::best
constexpr std::uint32_t kSkipped = 1, kRowsHaveFeatures = 2, kRowsHaveSums = 4;

}  // namespace

Bytes encode(const Cancel& m) { return Writer().put(m.route).put(m.job).put_all(std::span<const std::uint64_t>(m.runs)).take(); }

Cancel decode_cancel(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Cancel m;
  m.route = in.get<CancelRoute>();
  m.job = in.get<std::int64_t>();
  m.runs = in.get_all<std::uint64_t>();
  in.end();
  if (m.route > CancelRoute::kBackward) Reader::fail();
  return m;
}

Bytes encode(const Record& m) {
  Writer out;
  out.put_all(std::span<const CacheOperation>(m.operations)).put(m.run).put_all(std::span<const std::int32_t>(m.tokens));
  out.put_all(std::span<const Placement>(m.placements)).put_all(std::span<const std::int32_t>(m.logit_rows));
  out.put(static_cast<std::uint32_t>(m.best) | (m.feature_rows.empty() ? 0 : kRecordHasFeatures) |
          (m.features.empty() ? 0 : kRecordBringsFeatures) | (m.sums ? kRecordWantsSums : 0) |
          (m.likely_row < 0 ? 0 : kRecordHasLikelyRow));
  if (m.likely_row >= 0) out.put(m.likely_row);
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
  m.best = static_cast<std::int32_t>(best & ~(kRecordHasFeatures | kRecordBringsFeatures | kRecordWantsSums | kRecordHasLikelyRow));
  m.sums = (best & kRecordWantsSums) != 0;
  if (best & kRecordHasLikelyRow) m.likely_row = in.get<std::int32_t>();
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

}  // namespace yamata::wire
