#include "src/model/stage_model.hpp"

namespace yamata {

void StageModel::suppose_text(std::int32_t tokens, SequenceRange sequences) {
  cells().remove(sequences, {tokens, kUnbounded});
  std::vector<Placement> missing;
  for (std::int32_t at = cells().end(sequences.begin); at < tokens; ++at) missing.push_back({at, -1, sequences});
  BatchCells ignored;
  if (!missing.empty()) cells().place(missing, ignored);
}

}  // namespace yamata
