#include "launch/program/planning/layout_memory.hpp"

#include <algorithm>
#include <vector>

#include "mpi/planning/cache_size.hpp"
#include "src/model/shard.hpp"
#include "src/speculation/shaped_policies.hpp"

namespace yamata {
namespace {

/// Numbers of cells for texts, the most wanted first.
std::vector<std::int32_t> text_cells(const PlannedJob& job) {
  if (job.requests == 1) return {job.context};
  std::vector<std::int32_t> sizes = cache_sizes(job.requests, job.context);
  const std::int64_t needed = std::min<std::int64_t>(sizes.front(), std::int64_t{job.requests} * (job.prompt + job.generate));
  std::erase_if(sizes, [&](std::int32_t cells) { return cells < needed; });
  return sizes;
}

/// The memory of each rank with so many cells for texts.
void fill(const PlannedJob& job, std::span<const PlannedHost> hosts, const DecodeOptions& decode, std::int32_t cells, Forecast& f) {
  std::vector<std::uint64_t> used(hosts.size());
  const auto take = [&](const ModelFile& model, int rank, LayerRange range, const Shard& shard, std::int32_t all, std::int32_t window,
                        const TextSlots& texts) {
    const auto at = static_cast<std::size_t>(rank);
    const RankBytes bytes = rank_bytes(model, range, shard, job.cache_types, job.batch, hosts[at].threads, window, texts);
    f.rank_bytes.push_back(bytes.weights + bytes.cache(static_cast<std::uint64_t>(all)) + bytes.buffers);
    used[at] += f.rank_bytes.back();
  };
  f.rank_bytes.clear();
  const ModelPlace& place = f.candidate.layout.front();
  const TextSlots all_texts{.slots = job.requests};
  const std::int32_t target = cells + decode.guess_cells,
                     window = window_cells(job.target.h, target, decode.guess_cells, job.batch, false, all_texts);
  for (std::size_t s = 0, rank = 0; s < f.candidate.stages.size(); ++s) {
    const auto members = static_cast<std::size_t>(place.groups.empty() ? 1 : place.groups[s]);
    const std::span<const double> shares = std::span(place.shares).subspan(rank, members);
    for (std::size_t m = 0; m < members; ++m, ++rank)
      take(job.target, place.ranks[rank], f.candidate.stages[s], Shard(job.target.h, shares, static_cast<int>(m)), target, window,
           all_texts);
  }
  if (f.candidate.layout.size() > 1) {
    const Hyperparameters& h = job.draft->h;
    const bool one_text = job.requests == 1 || f.candidate.draft_on_head();
    const TextSlots texts = one_text ? TextSlots{} : all_texts;
    const std::int32_t guesses = texts.slots * draft_options(decode.policy).room(), all = (one_text ? job.context : cells) + guesses;
    const std::int32_t window_of_draft = window_cells(h, all, guesses, job.batch, true, texts);
    take(*job.draft, f.candidate.layout[1].ranks.front(), {0, h.layers}, Shard(h), all, window_of_draft, texts);
  }
  f.fits = true;
  for (std::size_t r = 0; r < hosts.size(); ++r) f.fits &= used[r] <= hosts[r].free_bytes;
}

}  // namespace

std::uint64_t least_layer_cache(const PlannedJob& job) {
  const Hyperparameters& h = job.target.h;
  const std::int32_t cells = text_cells(job).back();
  const TextSlots texts{.slots = job.requests};
  return rank_bytes(job.target, {0, h.layers}, Shard(h), job.cache_types, job.batch, 1, window_cells(h, cells, 0, job.batch, false, texts),
                    texts)
             .cache(static_cast<std::uint64_t>(cells)) /
         static_cast<std::uint64_t>(h.layers);
}

void add_memory(const PlannedJob& job, std::span<const PlannedHost> hosts, const DecodeOptions& decode, Forecast& f) {
  for (const std::int32_t cells : text_cells(job)) {
    fill(job, hosts, decode, cells, f);
    if (f.fits) return;
  }
}

}  // namespace yamata
