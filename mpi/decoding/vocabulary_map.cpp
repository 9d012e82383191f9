#include "mpi/decoding/vocabulary_map.hpp"

#include <fmt/format.h>

#include <unordered_map>

#include "node/error.hpp"

namespace yamata {

VocabularyMap VocabularyMap::between(const std::vector<std::string>& target, const std::vector<std::string>& draft) {
  VocabularyMap map;
  map.draft_tokens = static_cast<std::int64_t>(draft.size());
  if (target == draft) return map;
  std::unordered_map<std::string, std::int32_t> ids;
  for (std::size_t i = 0; i < target.size(); ++i) ids.emplace(target[i], static_cast<std::int32_t>(i));
  map.to_draft.assign(target.size(), 0);
  std::vector<std::size_t> lacking;
  for (std::size_t i = 0; i < draft.size(); ++i) {
    const auto found = ids.find(draft[i]);
    map.to_target.push_back(found == ids.end() ? -1 : found->second);
    if (found == ids.end())
      lacking.push_back(i);
    else
      map.to_draft[static_cast<std::size_t>(found->second)] = static_cast<std::int32_t>(i);
  }
  if (!lacking.empty() && (std::ssize(lacking) > kMostLacking || lacking.size() == draft.size())) {
    throw ModelError(
        fmt::format("the draft model has another vocabulary: {} of its tokens, first {} '{}', are not among the target's; use a "
                    "draft of the same family",
                    lacking.size(), lacking.front(), draft[lacking.front()]));
  }
  return map;
}

std::int32_t VocabularyMap::target(std::int32_t draft_token) const {
  return to_target.empty() ? draft_token : to_target.at(static_cast<std::size_t>(draft_token));
}

std::int32_t VocabularyMap::draft(std::int32_t target_token) const {
  return to_draft.empty() ? target_token : to_draft.at(static_cast<std::size_t>(target_token));
}

}  // namespace yamata
