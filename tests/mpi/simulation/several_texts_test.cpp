// Several texts at a time, in random mixes: each is the one that the target alone would write, whatever else runs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>

#include "tests/mpi/simulation/simulated_job.hpp"
#include "tests/thorough.hpp"

namespace yamata::test {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr int kRequests = 12;

/// A request of a mix, and what has become of it.
struct Asked final : RequestObserver {
  void on_token(RequestId, std::int32_t token) override { tokens.push_back(token); }
  void on_logprobs(RequestId, const TokenLogprob&, const std::vector<TokenLogprob>& top) override { alternatives += top.size(); }
  void on_finished(Completion c) override { completion = std::move(c); }

  Request request;
  const Asked* follows = nullptr;              // its prompt is that text, as far as it has been written, with a token more
  RequestId id = 0;                            // 0: not submitted yet
  int begins_after = 0, cancelled_after = -1;  // actions of the job; -1: never
  Ids tokens;
  std::size_t alternatives = 0;
  std::optional<Completion> completion;
};

/// What a mix consists of. Some prompts have a common beginning, or continue another text; some want all logits of a row, some few.
class Mix {
 public:
  explicit Mix(std::uint64_t seed) : random_(seed + 1000) {
    const bool guesses = random_() % 3 > 0;
    shape.seed = seed;
    shape.stages = 1 + static_cast<int>(random_() % 4);
    shape.slots = 2 + static_cast<int>(random_() % 7);
    shape.contexts = 1 + static_cast<int>(random_() % static_cast<std::uint64_t>(shape.slots));
    shape.kept_texts = static_cast<int>(random_() % 4);
    shape.lookup = guesses && random_() % 3 > 0;
    if (guesses && (!shape.lookup || random_() % 2 > 0)) shape.drafters = {static_cast<int>(random_() % 3)};
    if (guesses && random_() % 4 == 0) shape.drafters.push_back(1 + static_cast<int>(random_() % 2));
    for (std::size_t d = 0; d < shape.drafters.size(); ++d) {
      if (shape.drafters[d] > 0 && random_() % 4 == 0) lost[d] = static_cast<int>(random_() % 6000);
    }
    if (guesses) shape.strategy = random_() % 3 > 0 ? Strategy::kPipeInfer : Strategy::kSpeculative;
    if (random_() % 2 > 0) shape.window = 1 + static_cast<std::int32_t>(random_() % 40);
    shape.states = shape.window == 0 && seed % 5 > 0;
    shape.draft_states = shape.states && seed % 7 > 2;
  }
  std::vector<std::unique_ptr<Asked>> requests() {
    std::vector<std::unique_ptr<Asked>> all;
    const Ids beginning(static_cast<std::size_t>(random_() % 12), 3);
    for (int i = 0; i < kRequests; ++i) {
      Asked& asked = *all.emplace_back(std::make_unique<Asked>());
      Request& request = asked.request;
      if (random_() % 2 > 0) request.prompt = beginning;
      for (auto more = 1 + random_() % (random_() % 2 > 0 ? 20 : 4); more > 0; --more)
        request.prompt.push_back(static_cast<std::int32_t>(random_() % 8));
      request.generate = 1 + static_cast<std::int32_t>(random_() % 80);
      request.sampling.temperature = random_() % 2 > 0 ? 0.0f : 0.9f;
      request.sampling.seed = random_();
      if (random_() % 3 == 0) request.sampling.top_k = 3;
      if (random_() % 4 == 0) request.logprobs = 2;
      request.reuse = random_() % 4 > 0;
      request.checksum = random_() % 5 == 0;
      asked.begins_after = static_cast<int>(random_() % 4000);
      if (i > 0 && random_() % 2 == 0) asked.follows = all[random_() % static_cast<std::size_t>(i)].get();
      if (random_() % 4 == 0) asked.cancelled_after = asked.begins_after + static_cast<int>(random_() % (random_() % 2 > 0 ? 400 : 6000));
    }
    return all;
  }
  std::string name() const {
    return fmt::format("seed {}: {} stages, {} slots, {} contexts, {} kept texts, a window of {}, {}states, {} drafters, {}lookup, {}",
                       shape.seed, shape.stages, shape.slots, shape.contexts, shape.kept_texts, shape.window, shape.states ? "" : "no ",
                       shape.drafters.size(), shape.lookup ? "" : "no ", static_cast<int>(shape.strategy));
  }

  JobShape shape;
  std::map<std::size_t, int> lost;  // drafters, and after how many actions

 private:
  Random random_;
};

void check(const Asked& asked, const SimulatedJob& job) {
  const Completion& c = asked.completion.value();
  EXPECT_EQ(c.token_ids, asked.tokens);
  const auto written = static_cast<std::int32_t>(asked.tokens.size());
  EXPECT_EQ(asked.tokens, job.text_after(asked.request.prompt, written, asked.request.sampling));
  EXPECT_EQ(asked.alternatives, asked.request.logprobs ? 2 * asked.tokens.size() : 0u);
  if (c.finish == FinishReason::kInterrupted) return;
  const auto room = SimulatedJob::kContext - static_cast<std::int32_t>(asked.request.prompt.size()) + 1;
  EXPECT_EQ(written, std::min(asked.request.generate, room));
}

void submit(Asked& asked, SimulatedJob& job) {
  if (asked.follows && asked.follows->request.prompt.size() + asked.follows->tokens.size() < SimulatedJob::kContext) {
    Ids& prompt = asked.request.prompt;
    const std::int32_t last = prompt.back();
    prompt = asked.follows->request.prompt;
    prompt.insert(prompt.end(), asked.follows->tokens.begin(), asked.follows->tokens.end());
    prompt.push_back(last);
  }
  asked.id = job.engine().submit(asked.request, asked);
}

/// What mixes have shown.
struct Seen {
  std::size_t together = 0;  // texts that were generated at the same time, at most
  std::size_t cached = 0;    // tokens that were there already
};

Seen play(Mix& mix, SimulatedJob& job) {
  auto all = mix.requests();
  Seen seen;
  const auto over = [&] { return std::ranges::all_of(all, [](const auto& asked) { return asked->completion.has_value(); }); };
  for (int action = 0; !over(); ++action) {
    if (action > 4'000'000) throw std::logic_error("no end");
    std::size_t open = 0;
    for (const auto& asked : all) {
      if (asked->id == 0 && action >= asked->begins_after) submit(*asked, job);
      if (asked->id > 0 && action == asked->cancelled_after) job.engine().cancel(asked->id);
      open += !asked->tokens.empty() && !asked->completion;
    }
    seen.together = std::max(seen.together, open);
    for (const auto& [drafter, after] : mix.lost) {
      if (action == after) job.break_rank(job.drafter_rank(drafter));
    }
    job.act();
  }
  EXPECT_TRUE(job.engine().idle());
  for (const auto& asked : all) {
    check(*asked, job);
    seen.cached += asked->completion->cached_tokens;
  }
  return seen;
}

/// Of mixes, and those that once showed a rare fault.
std::vector<std::uint64_t> seeds() {
  std::vector<std::uint64_t> all{10825};
  for (std::uint64_t seed = 1; seed <= (thorough() ? 20'000 : 400); ++seed) all.push_back(seed);
  return all;
}

TEST(SeveralTexts, InRandomMixes_areThoseOfTheTargetAlone) {
  std::size_t together = 0, pauses = 0, lost = 0, in_windows = 0, in_states = 0;
  for (const std::uint64_t seed : seeds()) {
    Mix mix(seed);
    SCOPED_TRACE(mix.name());
    SimulatedJob job(mix.shape);
    job.start();
    Seen seen;
    ASSERT_NO_THROW(seen = play(mix, job));
    together += seen.together;
    if (mix.shape.window > 0) in_windows += seen.cached;
    if (mix.shape.states) in_states += seen.cached;
    pauses += job.engine().pauses();
    // Nothing is left of them but what the cache keeps.
    const CellTable& cells = job.head().target().cells();
    EXPECT_TRUE(mix.shape.kept_texts > 0 || cells.free_cells() == cells.cell_count());
    job.until([&] { return job.head().target().outstanding() == 0; });
    EXPECT_LE(job.warnings.size(), mix.lost.size());
    lost += job.warnings.size();
    if (HasFailure()) return;
  }
  EXPECT_GT(pauses, 100u);
  EXPECT_GT(lost, 20u);
  EXPECT_GT(in_windows, 2000u) << "checkpoints are hardly used";
  EXPECT_GT(in_states, 400u);
  EXPECT_GT(together, 2 * (thorough() ? 20'000u : 400u)) << "so few at the same time say little";
}

/// Guesses that were sent for each of four texts at the same time, and those of them that were right. Drafts are always right.
std::vector<Decoder::Counters> guesses_of_four_texts(int drafter) {
  SimulatedJob job({.seed = 5, .stages = 2, .drafters = {drafter}, .strategy = Strategy::kPipeInfer, .slots = 4, .disagreement = 0});
  job.decode.at_any_cost = true;  // so that a draft is left out only if it must be
  job.start();
  std::vector<Asked> all(4);
  for (Asked& asked : all) {
    asked.request.prompt = job.random_prompt();
    asked.request.generate = 40;
    asked.id = job.engine().submit(asked.request, asked);
  }
  job.until([&] { return job.engine().idle(); });
  std::vector<Decoder::Counters> counters;
  for (const Asked& asked : all) {
    check(asked, job);
    counters.push_back(asked.completion->counters);
  }
  return counters;
}

TEST(SeveralTexts, DrafterOnARankOfItsOwn_guessesForEveryText) {
  for (const Decoder::Counters& counters : guesses_of_four_texts(1)) {
    EXPECT_GT(counters.accepted, 4u);
    EXPECT_LT(counters.target_evaluations, 36u);
  }
}

TEST(SeveralTexts, DraftOnTheHeadsUnit_isSilentWhileThereAreOthers) {
  for (const Decoder::Counters& counters : guesses_of_four_texts(0)) EXPECT_LE(counters.drafted, 8u) << "of one question before they began";
}

}  // namespace
}  // namespace yamata::test
