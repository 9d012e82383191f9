#include "src/draft_heads/draft_heads_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "node/error.hpp"
#include "src/draft_heads/draft_head.hpp"
#include "src/draft_heads/medusa.hpp"
#include "src/draft_heads/nextn_head.hpp"

namespace yamata::draft_heads {
namespace {

/// Identifies the kinds by the tensors' names.
std::vector<Kind> detect(const TensorViews& tensors) {
  if (const gguf::File* file = tensors.gguf()) {
    if (file->string("general.architecture") == "eagle3") return {Kind::kEagle3};
    return has_nextn_names(tensors) ? std::vector{Kind::kNextn} : std::vector<Kind>{};
  }
  const auto has = [&](const std::string& name) { return tensors.has(name) || tensors.has("model." + name); };
  std::vector<Kind> found;
  if (has_medusa_names(tensors)) found.push_back(Kind::kMedusa);
  if (has("W_1") && has("W_z")) found.push_back(Kind::kDgf);
  if (has("midlayer.hidden_norm.weight") || has("layers.0.hidden_norm.weight"))
    found.push_back(Kind::kEagle3);
  else if (has("fc.weight"))
    found.push_back(Kind::kEagle);
  return found;
}

/// Says what the file may be instead.
[[noreturn]] void refuse_unknown(const TensorViews& tensors) {
  const std::string& path = tensors.path();
  if (tensors.gguf() && tensors.has("token_embd.weight") && tensors.has("blk.0.attn_norm.weight"))
    throw ModelError(fmt::format("{} is a model, not draft heads; give it with -md", path));
  if (tensors.integers("ids") && tensors.integers("texts"))
    throw ModelError(fmt::format("{} has texts for training, no draft heads; train heads with it first (launch/train-heads)", path));
  throw ModelError(fmt::format("{}: its heads are not medusa, dgf, eagle, eagle3 or nextn; name the kind with --heads-kind", path));
}

}  // namespace

DraftHeadsFile DraftHeadsFile::open(const std::string& path, std::optional<Kind> forced) {
  TensorViews tensors = TensorViews::open(path);
  const std::vector<Kind> found = detect(tensors);
  if (!forced && found.empty()) refuse_unknown(tensors);
  if (!forced && found.size() > 1)
    throw ModelError(
        fmt::format("{} has heads of two kinds, {} and {}; name one file with --heads", path, kind_name(found[0]), kind_name(found[1])));
  return {std::move(tensors), forced ? *forced : found.front(), found.empty() ? std::nullopt : std::optional(found.front())};
}

namespace {

/// Bytes of a tensor as it is kept; the parts into which some matrices are cut may keep another type.
std::uint64_t kept_bytes(const TensorView& tensor, MatrixType matrices) {
  const TensorType type = tensor.rows > 1 ? kept_type(tensor.type, tensor.cols, matrices) : tensor.type;
  return static_cast<std::uint64_t>(tensor.rows) * row_bytes(type, tensor.cols);
}

std::uint64_t kept_bytes(const TensorViews& tensors, MatrixType matrices) {
  std::uint64_t bytes = 0;
  for (const std::string& name : tensors.names()) bytes += kept_bytes(tensors.tensor(name), matrices);
  return bytes;
}

}  // namespace

/// If another kind was forced than that of the tensors, that is the likely cause of a fault, whatever remedy the fault names.
Needs DraftHeadsFile::needs(const ModelFile& target, const ContextOptions& context, MatrixType matrices) const {
  try {
    return needs_of_kind(target, context, matrices);
  } catch (const ModelError& error) {
    if (!detected_ || detected_ == kind_) throw;
    const std::string_view what = error.what();
    throw ModelError(fmt::format("{}; its tensors are those of {} heads: leave --heads-kind out", what.substr(0, what.find("; ")),
                                 kind_name(*detected_)));
  }
}

Needs DraftHeadsFile::needs_of_kind(const ModelFile& target, const ContextOptions& context, MatrixType matrices) const {
  const CheckedTensors tensors(tensors_, target);
  const Hyperparameters& h = target.h;
  if (kind_ == Kind::kNextn) return nextn_needs(tensors, context);
  const WeightSet target_weights = StageWeights::find_rest(target.file, h, WeightUse::kTime);
  Needs needs;
  needs.weight_bytes = kept_bytes(tensors_, matrices);
  const std::uint64_t output = target_weights.matrix(TensorRole::kOutput).bytes();
  if (kind_ == Kind::kMedusa) {
    const MedusaTensors medusa = MedusaTensors::find(tensors);
    needs.feature_layers = {kOutputFeatures};
    const bool shares = !medusa.draft_heads.front().output;  // then all are computed at once
    if (shares) needs.weight_bytes += output;
    needs.evaluation_bytes = shares ? needs.weight_bytes : needs.weight_bytes / medusa.draft_heads.size();
    needs.row_bytes = sizeof(float) * static_cast<std::uint64_t>(h.vocabulary);
    return needs;
  }
  const DraftHeadShape shape = DraftHeadShape::find(tensors, kind_);
  needs.feature_layers = shape.layers;
  if (!shape.output) needs.weight_bytes += output;
  needs.evaluation_bytes = needs.weight_bytes;
  if (shape.embedding) {  // a table: kept as stored, and an evaluation reads a row of it
    const std::uint64_t counted = kept_bytes(*shape.embedding, matrices);
    needs.weight_bytes += kept_bytes(*shape.embedding, std::nullopt) - counted;
    needs.evaluation_bytes -= counted;
  }
  needs.cache_per_cell =
      KvStore::bytes_for({static_cast<int>(shape.blocks.size()), static_cast<int>(shape.kv_heads), static_cast<int>(shape.head_dim)}, 1,
                         context.cache_types) +
      sizeof(float) * static_cast<std::uint64_t>(shape.dim);
  needs.row_bytes = sizeof(float) * static_cast<std::uint64_t>(6 * shape.dim + 2 * shape.features + 4 * shape.heads * shape.head_dim +
                                                               3 * shape.ffn + shape.output_rows);
  return needs;
}

std::unique_ptr<StageModel> DraftHeadsFile::make_stage(const ModelFile& target, const ContextOptions& context, MatrixType matrices,
                                                       ComputeUnit& unit) const {
  const CheckedTensors tensors(tensors_, target);
  if (kind_ == Kind::kMedusa) return std::make_unique<MedusaHeads>(tensors, context, matrices, unit);
  if (kind_ == Kind::kNextn) return std::make_unique<NextnHead>(tensors, context, unit);
  return std::make_unique<DraftHead>(tensors, kind_, context, matrices, unit);
}

}  // namespace yamata::draft_heads
