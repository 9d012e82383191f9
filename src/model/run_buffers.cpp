#include "src/model/run_buffers.hpp"

#include <algorithm>

namespace yamata {
namespace {

/// Calls use(buffer, number, floats of each) for all of them.
template <class Buffers, class Use>
void for_each_buffer(Buffers& b, const StageBuffers& sizes, std::int64_t rows, std::int64_t logit_rows, Use use) {
  use(b.x, rows, sizes.residual);
  use(b.input, rows, sizes.input);
  use(b.q, rows, sizes.q);
  use(b.k, rows, sizes.k);
  use(b.v, rows, sizes.v);
  use(b.attention, rows, sizes.attention);
  use(b.low_queries, rows, sizes.low_queries);
  use(b.cell_q, rows, sizes.cell_q);
  use(b.cell_k, rows, sizes.cell_k);
  use(b.cell_v, rows, sizes.cell_v);
  use(b.convolved, rows, sizes.convolved);
  use(b.convolved_gate, rows, sizes.convolved_gate);
  use(b.state_gates, rows, sizes.state_gates);
  use(b.state_inputs, rows, sizes.state_inputs);
  use(b.head_pairs, rows, sizes.head_pairs);
  use(b.index_q, rows, sizes.index_q);
  use(b.index_k, rows, sizes.index_k);
  use(b.index_weights, rows, sizes.index_weights);
  use(b.picked, rows, sizes.picked);
  use(b.block_angles, rows, sizes.block_angles);
  use(b.gate, rows, sizes.gate);
  use(b.up, rows, sizes.up);
  use(b.normed, rows, sizes.normed);
  use(b.ffn_input, rows, sizes.ffn_input);
  use(b.branch, rows, sizes.branch);
  use(b.router, rows, sizes.router);
  use(b.choice, rows, sizes.choice);
  use(b.angles, rows, sizes.angles);
  use(b.query_scales, rows, sizes.query_scales);
  use(b.chosen, logit_rows, sizes.chosen);
  use(b.logits, logit_rows, sizes.logits);
  use(b.highest, logit_rows, sizes.highest);
  use(b.expert_begins, 1, sizes.expert_begins);
  use(b.head_begins, 1, sizes.head_begins);
  use(b.sums, rows, sizes.sums);
  use(b.layer_inputs, rows, sizes.layer_inputs);
  use(b.layer_gates, rows, sizes.layer_gates);
  use(b.stream_normed, rows, sizes.stream_normed);
  use(b.stream_gates, rows, sizes.stream_gates);
  use(b.stream_low, rows, sizes.stream_low);
  use(b.stream_numbers, rows, sizes.stream_numbers);
  use(b.block, rows, sizes.block);
  use(b.passed, rows, sizes.passed);
  use(b.ones, 1, sizes.ones);
  use(b.suppressed, 1, sizes.suppressed);
}

}  // namespace

void RunBuffers::reserve(const StageBuffers& sizes, std::int64_t rows, std::int64_t logit_rows) {
  for_each_buffer(*this, sizes, rows, logit_rows,
                  [](FloatBuffer& buffer, std::int64_t n, std::int64_t width) { buffer.reserve(static_cast<std::size_t>(n * width)); });
  std::fill_n(ones.data(), sizes.ones, 1.0f);
}

std::size_t RunBuffers::floats() const {
  std::size_t floats = 0;
  for_each_buffer(*this, StageBuffers{}, 0, 0, [&](const FloatBuffer& buffer, std::int64_t, std::int64_t) { floats += buffer.size(); });
  return floats;
}

}  // namespace yamata
