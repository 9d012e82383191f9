#include "src/model/layer_spec.hpp"

#include <fmt/format.h>

#include "node/error.hpp"

namespace yamata {

void require_supported(const gguf::File& file, const LayerSpec& spec) {
  const auto refuse = [&](bool lacking, const std::string& what) {
    if (lacking) throw ModelError(fmt::format("{}: {}", file.name(), what));
  };
  refuse(spec.experts > kMaxExperts, fmt::format("{} experts are more than the {} that are supported", spec.experts, kMaxExperts));
  refuse(spec.experts > 0 && (spec.experts_used < 1 || spec.experts_used > spec.experts),
         fmt::format("each token uses {} of {} experts; convert the model again", spec.experts_used, spec.experts));
  refuse(spec.expert_groups > 0 && (spec.experts % spec.expert_groups != 0 || spec.experts / spec.expert_groups < 2),
         fmt::format("{} experts are no {} groups of two or more; convert the model again", spec.experts, spec.expert_groups));
  refuse(spec.expert_groups > 0 && spec.expert_groups_used * (spec.experts / spec.expert_groups) < spec.experts_used,
         fmt::format("{} groups of experts have fewer than the {} that a token uses; convert the model again", spec.expert_groups_used,
                     spec.experts_used));
  refuse(spec.latent_rank > 0 && spec.qk_norm != QkNorm::kNone, "norms of heads with latent attention are not supported yet");
  refuse(spec.experts > 0 && !spec.gated && (spec.weigh_inputs || spec.dense_beside),
         "experts without a gate, of weighted inputs or beside a dense feed-forward, are not supported yet");
  refuse(spec.experts > 0 && !spec.dense_beside && spec.ffn_post_norm != NormKind::kNone,
         "norms after a mixture of experts are not supported yet");
  refuse(spec.experts > 0 && spec.parallel, "experts parallel to attention are not supported yet");
  refuse(spec.activation == Activation::kNone, "feed-forwards without an activation are not supported yet");
}

}  // namespace yamata
