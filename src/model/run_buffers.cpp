#include "src/model/run_buffers.hpp"

#include <array>

namespace yamata {

void RunBuffers::reserve(const StageBuffers& sizes, std::int64_t rows, std::int64_t logit_rows) {
  const auto grow = [](FloatBuffer& buffer, std::int64_t n, std::int64_t width) { buffer.reserve(static_cast<std::size_t>(n * width)); };
  grow(x, rows, sizes.residual);
  grow(input, rows, sizes.input);
  grow(q, rows, sizes.q);
  grow(k, rows, sizes.k);
  grow(v, rows, sizes.v);
  grow(attention, rows, sizes.attention);
  grow(low_queries, rows, sizes.low_queries);
  grow(cell_q, rows, sizes.cell_q);
  grow(cell_k, rows, sizes.cell_k);
  grow(cell_v, rows, sizes.cell_v);
  grow(convolved, rows, sizes.convolved);
  grow(convolved_gate, rows, sizes.convolved_gate);
  grow(state_gates, rows, sizes.state_gates);
  grow(state_inputs, rows, sizes.state_inputs);
  grow(head_pairs, rows, sizes.head_pairs);
  grow(gate, rows, sizes.gate);
  grow(up, rows, sizes.up);
  grow(normed, rows, sizes.normed);
  grow(ffn_input, rows, sizes.ffn_input);
  grow(branch, rows, sizes.branch);
  grow(router, rows, sizes.router);
  grow(choice, rows, sizes.choice);
  grow(angles, rows, sizes.angles);
  grow(query_scales, rows, sizes.query_scales);
  grow(chosen, logit_rows, sizes.chosen);
  grow(logits, logit_rows, sizes.logits);
  grow(highest, logit_rows, sizes.highest);
  grow(expert_begins, 1, sizes.expert_begins);
  grow(head_begins, 1, sizes.head_begins);
}

std::size_t RunBuffers::floats() const {
  std::size_t floats = 0;
  for (const FloatBuffer* buffer : {&x,
                                    &input,
                                    &q,
                                    &k,
                                    &v,
                                    &attention,
                                    &low_queries,
                                    &cell_q,
                                    &cell_k,
                                    &cell_v,
                                    &convolved,
                                    &convolved_gate,
                                    &state_gates,
                                    &state_inputs,
                                    &gate,
                                    &up,
                                    &normed,
                                    &ffn_input,
                                    &branch,
                                    &router,
                                    &choice,
                                    &angles,
                                    &query_scales,
                                    &chosen,
                                    &logits,
                                    &highest,
                                    &expert_begins,
                                    &head_pairs,
                                    &head_begins})
    floats += buffer->size();
  return floats;
}

}  // namespace yamata
