#include "src/draft_heads/medusa.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "node/error.hpp"

namespace yamata::draft_heads {
namespace {

/// Full checkpoints have a prefix before the heads' tensor names.
std::string prefix_of(const TensorViews& tensors) {
  for (const char* prefix : {"", "medusa_head.", "model.medusa_head."}) {
    if (tensors.has(fmt::format("{}0.0.linear.weight", prefix))) return prefix;
  }
  return "";
}

}  // namespace

bool has_medusa_names(const TensorViews& tensors) { return tensors.has(prefix_of(tensors) + "0.0.linear.weight"); }

MedusaTensors MedusaTensors::find(const CheckedTensors& tensors) {
  const std::string prefix = prefix_of(tensors.all());
  const Hyperparameters& h = tensors.target().h;
  MedusaTensors found;
  while (found.draft_heads.empty() || tensors.find(fmt::format("{}{}.0.linear.weight", prefix, found.draft_heads.size()))) {
    const std::string head = fmt::format("{}{}.", prefix, found.draft_heads.size());
    Head& to = found.draft_heads.emplace_back();
    std::size_t block = 0;
    do {
      to.weights.push_back(&tensors.get(fmt::format("{}{}.linear.weight", head, block), h.dim, h.dim));
      to.biases.push_back(tensors.find(fmt::format("{}{}.linear.bias", head, block), 1, h.dim));
      ++block;
    } while (tensors.find(fmt::format("{}{}.linear.weight", head, block)));
    to.output = tensors.find(fmt::format("{}{}.weight", head, block), h.vocabulary, h.dim);
  }
  tensors.require_all_read(prefix);  // with a prefix, the rest of a checkpoint is another model
  return found;
}

MedusaHeads::MedusaHeads(const CheckedTensors& tensors, const ContextOptions& context, MatrixType matrices, ComputeUnit& unit)
    : DraftHeadsStage(tensors.target(), context, matrices, unit),
      depths_(static_cast<std::size_t>(context.cells)),
      feature_(static_cast<std::size_t>(target_.h.dim)),
      hidden_(unit),
      inner_(unit),
      outputs_(unit) {
  const Matrix* target_output = nullptr;
  for (const MedusaTensors::Head& from : MedusaTensors::find(tensors).draft_heads) {
    Head& head = draft_heads_.emplace_back();
    for (std::size_t i = 0; i < from.weights.size(); ++i) {
      head.weights.push_back(weights_.matrix(*from.weights[i]));
      head.biases.push_back(from.biases[i] ? weights_.vector(*from.biases[i]) : nullptr);
    }
    if (!from.output && !target_output) target_output = weights_.foreign(this->target_output());
    head.output = from.output ? weights_.matrix(*from.output) : target_output;
    head.shares_output = !from.output;
  }
  computed_.resize(draft_heads_.size());
  hidden_.reserve(draft_heads_.size() * feature_.size());
  inner_.reserve(draft_heads_.size() * feature_.size());
  outputs_.reserve(draft_heads_.size() * static_cast<std::size_t>(vocabulary()));
}

std::size_t MedusaHeads::depth_of(std::size_t row) const {
  const CellId parent = parent_cell(row);
  return parent == kNoCell ? 0 : depths_[static_cast<std::size_t>(parent)] + 1;
}

void MedusaHeads::build(const StageBatch& batch) {
  const bool text = !batch.features.empty();
  if (text) {
    std::copy(batch.features.end() - width(), batch.features.end(), feature_.begin());
    std::fill(computed_.begin(), computed_.end(), false);
  }
  for (std::size_t row = 0; row < batch.tokens.size(); ++row)
    depths_[static_cast<std::size_t>(batch_cells_.cells()[row])] = text ? 0 : depth_of(row);
  rows_.clear();
  for (const std::int32_t row : batch.logit_rows) {
    const std::size_t depth = depths_[static_cast<std::size_t>(batch_cells_.cells()[static_cast<std::size_t>(row)])];
    rows_.push_back(depth);
    if (depth >= draft_heads_.size() || computed_[depth]) continue;
    build_draft_heads(depth);
  }
}

/// h + SiLU(W h + b), block by block; returns the last block's result, which is in hidden_.
const float* MedusaHeads::build_blocks(std::size_t index) {
  const Head& head = draft_heads_[index];
  const float* hidden = feature_.data();
  for (std::size_t i = 0; i < head.weights.size(); ++i) {
    const bool in_hidden = (head.weights.size() - i) % 2 == 1;
    float* const next = (in_hidden ? hidden_ : inner_).data() + index * feature_.size();
    LinearOp inner{.x = hidden, .rows = 1, .cols = width(), .parts = {}, .add = false};
    inner.parts[0] = {.weight = head.weights[i], .y = next, .bias = head.biases[i]};
    ops_.push_back(inner);
    // No product: only its activated input is used.
    ops_.push_back(
        LinearOp{.x = next, .rows = 1, .cols = width(), .parts = {}, .add = false, .input = next, .activation = Activation::kSilu});
    ops_.push_back(AddOp{.to = next, .from = hidden, .rows = 1, .cols = width(), .to_stride = width(), .from_stride = width()});
    hidden = next;
  }
  return hidden;
}

/// Logits of a head, together with those of the following heads that also use the target's output matrix, so that its weights are read once
/// for all of them.
void MedusaHeads::build_draft_heads(std::size_t index) {
  std::size_t begin = index, end = index + 1;
  const auto joins = [&](std::size_t head) {
    return draft_heads_[index].shares_output && draft_heads_[head].shares_output && !computed_[head];
  };
  while (begin > 0 && joins(begin - 1)) --begin;
  while (end < draft_heads_.size() && joins(end)) ++end;
  for (std::size_t head = end; head-- > begin;) computed_[head] = true;
  const float* hidden = nullptr;
  for (std::size_t head = end; head-- > begin;) hidden = build_blocks(head);
  ops_.push_back(
      LinearOp{.x = hidden,
               .rows = static_cast<std::int64_t>(end - begin),
               .cols = width(),
               .parts = {{{draft_heads_[index].output, outputs_.data() + begin * static_cast<std::size_t>(vocabulary())}, {}, {}}},
               .add = false});
}

std::span<const float> MedusaHeads::logits() const {
  const auto tokens = static_cast<std::size_t>(vocabulary());
  logits_.clear();
  for (const std::size_t depth : rows_) {
    const float* from = outputs_.data() + depth * tokens;
    depth < draft_heads_.size() ? logits_.insert(logits_.end(), from, from + tokens) : logits_.insert(logits_.end(), tokens, 0.0f);
  }
  return logits_;
}

}  // namespace yamata::draft_heads
