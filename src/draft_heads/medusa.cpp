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
      roots_(static_cast<std::size_t>(context.cells), kNoCell),
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
}

/// This row, which comes with features, is a text's last token: of one that it continues, or of one in the place of a text that is over.
void MedusaHeads::begin_text(const StageBatch& batch, std::size_t row) {
  const CellId root = batch_cells_.cells()[row];
  const std::span<const CellId> seen = batch_cells_.visible(row);
  const auto gone = [&](const Text& text) {
    return text.root == root || !cells_.held(text.root) || std::ranges::find(seen, text.root) != seen.end();
  };
  const auto free = std::ranges::find_if(texts_, gone);
  const auto index = static_cast<std::size_t>(free - texts_.begin());
  if (free == texts_.end()) {
    texts_.emplace_back();
    const std::size_t places = texts_.size() * draft_heads_.size(), dim = static_cast<std::size_t>(width());
    for (Text& text : texts_) text.computed.assign(draft_heads_.size(), false);  // the buffers lose their contents
    hidden_.reserve(places * dim);
    inner_.reserve(places * dim);
    outputs_.reserve(places * static_cast<std::size_t>(vocabulary()));
  }
  const auto feature = batch.features.subspan(row * static_cast<std::size_t>(width()), static_cast<std::size_t>(width()));
  texts_[index] = {root, {feature.begin(), feature.end()}, std::vector<bool>(draft_heads_.size())};
}

void MedusaHeads::place_rows(const StageBatch& batch) {
  for (std::size_t row = 0; row < batch.tokens.size(); ++row) {
    const auto cell = static_cast<std::size_t>(batch_cells_.cells()[row]);
    const CellId parent = parent_cell(row);
    const bool guess = batch.features.empty() && parent != kNoCell;
    depths_[cell] = guess ? depths_[static_cast<std::size_t>(parent)] + 1 : 0;
    roots_[cell] = guess ? roots_[static_cast<std::size_t>(parent)] : batch_cells_.cells()[row];
  }
}

void MedusaHeads::build(const StageBatch& batch) {
  place_rows(batch);
  wanted_.clear();
  rows_.clear();
  for (const std::int32_t row : batch.logit_rows) {
    if (!batch.features.empty()) begin_text(batch, static_cast<std::size_t>(row));
  }
  for (const std::int32_t row : batch.logit_rows) {
    const auto cell = static_cast<std::size_t>(batch_cells_.cells()[static_cast<std::size_t>(row)]);
    const auto text = static_cast<std::size_t>(std::ranges::find(texts_, roots_[cell], &Text::root) - texts_.begin());
    const bool known = text < texts_.size() && depths_[cell] < draft_heads_.size();
    rows_.push_back(known ? std::optional(text * draft_heads_.size() + depths_[cell]) : std::nullopt);
    if (known && !texts_[text].computed[depths_[cell]]) want_draft_heads(text, depths_[cell]);
  }
  std::ranges::sort(wanted_);
  for (const std::size_t place : wanted_) build_blocks(place);
  build_outputs();
}

/// This head, and those beside it that also use the target's output matrix, so that its weights are read once for all of them.
void MedusaHeads::want_draft_heads(std::size_t text, std::size_t head) {
  std::vector<bool>& computed = texts_[text].computed;
  std::size_t begin = head, end = head + 1;
  const auto joins = [&](std::size_t other) {
    return draft_heads_[head].shares_output && draft_heads_[other].shares_output && !computed[other];
  };
  while (begin > 0 && joins(begin - 1)) --begin;
  while (end < draft_heads_.size() && joins(end)) ++end;
  for (; begin < end; ++begin) {
    computed[begin] = true;
    wanted_.push_back(text * draft_heads_.size() + begin);
  }
}

/// h + SiLU(W h + b), block by block; the last block's result is in hidden_.
void MedusaHeads::build_blocks(std::size_t place) {
  const Head& head = draft_heads_[place % draft_heads_.size()];
  const float* hidden = texts_[place / draft_heads_.size()].feature.data();
  for (std::size_t i = 0; i < head.weights.size(); ++i) {
    const bool in_hidden = (head.weights.size() - i) % 2 == 1;
    float* const next = (in_hidden ? hidden_ : inner_).data() + place * static_cast<std::size_t>(width());
    LinearOp inner{.x = hidden, .rows = 1, .cols = width(), .parts = {}, .add = false};
    inner.parts[0] = {.weight = head.weights[i], .y = next, .bias = head.biases[i]};
    ops_.push_back(inner);
    // No product: only its activated input is used.
    ops_.push_back(
        LinearOp{.x = next, .rows = 1, .cols = width(), .parts = {}, .add = false, .input = next, .activation = Activation::kSilu});
    ops_.push_back(AddOp{.to = next, .from = hidden, .rows = 1, .cols = width(), .to_stride = width(), .from_stride = width()});
    hidden = next;
  }
}

/// The logits of what is wanted: one product for heads that follow each other in the buffers and have the same output matrix.
void MedusaHeads::build_outputs() {
  const auto output_of = [&](std::size_t place) { return draft_heads_[place % draft_heads_.size()].output; };
  for (std::size_t begin = 0, end = 0; begin < wanted_.size(); begin = end) {
    const std::size_t first = wanted_[begin];
    for (end = begin + 1; end < wanted_.size() && wanted_[end] == first + (end - begin) && output_of(wanted_[end]) == output_of(first);)
      ++end;
    ops_.push_back(LinearOp{.x = hidden_.data() + first * static_cast<std::size_t>(width()),
                            .rows = static_cast<std::int64_t>(end - begin),
                            .cols = width(),
                            .parts = {{{output_of(first), outputs_.data() + first * static_cast<std::size_t>(vocabulary())}, {}, {}}},
                            .add = false});
  }
}

std::span<const float> MedusaHeads::logits() const {
  const auto tokens = static_cast<std::size_t>(vocabulary());
  logits_.clear();
  for (const std::optional<std::size_t> place : rows_) {
    const float* from = outputs_.data() + place.value_or(0) * tokens;
    place ? logits_.insert(logits_.end(), from, from + tokens) : logits_.insert(logits_.end(), tokens, 0.0f);
  }
  return logits_;
}

}  // namespace yamata::draft_heads
