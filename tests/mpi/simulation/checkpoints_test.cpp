// Checkpoints stay in layers with windows or states: after prompts, before their last runs, and after texts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/mpi/simulation/simulated_job.hpp"
#include "tests/thorough.hpp"

namespace yamata::test {
namespace {

using Ids = std::vector<std::int32_t>;

struct AnswerRecorder final : RequestObserver {
  void on_token(RequestId, std::int32_t token) override { tokens.push_back(token); }
  void on_finished(Completion c) override { completion = std::move(c); }
  Ids tokens;
  std::optional<Completion> completion;
};

Request question(Ids prompt, std::int32_t tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.generate = tokens;
  return request;
}

Ids put_behind(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Asks, and checks the text; returns how many tokens of the prompt were there, and adds the answer to the prompt.
std::size_t ask(SimulatedJob& job, Ids& text, std::int32_t tokens) {
  AnswerRecorder told;
  job.engine().submit(question(text, tokens), told);
  job.until([&] { return told.completion.has_value(); });
  EXPECT_EQ(told.tokens, job.text_after(text, tokens));
  text = put_behind(std::move(text), told.tokens);
  return told.completion->cached_tokens;
}

/// A job whose layers have states, or else windows.
JobShape shape_of(bool states, JobShape shape) {
  shape.states = states;
  if (!states) shape.window = 3;
  return shape;
}

TEST(Checkpoints, APromptThatGoesOn_beginsAtTheNearestOne) {
  for (const bool states : {true, false}) {
    for (const Strategy strategy : {Strategy::kIterative, Strategy::kPipeInfer}) {
      for (const int slots : {1, 3}) {
        SimulatedJob job(shape_of(
            states,
            {.seed = 5, .stages = 3, .strategy = strategy, .lookup = strategy == Strategy::kPipeInfer, .slots = slots, .kept_texts = 8}));
        job.start();
        Ids prompt(10);
        for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<std::int32_t>(i % 3);
        Ids text = prompt;
        EXPECT_EQ(ask(job, text, 6), 0u);
        text.push_back(1);
        EXPECT_EQ(ask(job, text, 4), states ? 16u : 15u) << "the end of the text before, in states with its last token";
        Ids other = put_behind(prompt, {3, 4});
        EXPECT_EQ(ask(job, other, 4), 10u) << "the end of the prompt";
        Ids again = prompt;
        EXPECT_EQ(ask(job, again, 4), 8u) << "the prompt without its last run: its last token must be computed";
        Ids unlike{7, 7, 7};
        EXPECT_EQ(ask(job, unlike, 4), 0u);
      }
    }
  }
}

TEST(Checkpoints, OfAPromptThatIsLeft_areThoseThatWereComputed) {
  std::size_t cached = 0;
  for (int acts = 0; acts < 1200; acts += 20) {
    SCOPED_TRACE(acts);
    SimulatedJob job(shape_of(acts % 40 > 0, {.seed = 3, .stages = 3, .slots = 2, .kept_texts = 8}));
    job.start();
    Ids left(30, 1), other(40, 2);
    AnswerRecorder told;
    const RequestId id = job.engine().submit(question(left, 20), told);
    for (int i = 0; i < acts; ++i) job.act();
    job.engine().cancel(id);
    ask(job, other, 4);
    left.push_back(3);
    cached += ask(job, left, 4);
  }
  EXPECT_GT(cached, 100u);
}

TEST(Checkpoints, OfAPromptThatIsBeingComputed_areAwaited) {
  for (const bool windows : {true, false}) {
    SimulatedJob job({.seed = 7, .stages = 2, .slots = 3, .kept_texts = 4, .window = windows ? 3 : 0});
    job.start();
    const Ids prompt(38, 5);
    std::vector<AnswerRecorder> told(3);
    for (AnswerRecorder& each : told) job.engine().submit(question(prompt, 6), each);
    job.until([&] { return std::ranges::all_of(told, [](const auto& each) { return each.completion.has_value(); }); });
    EXPECT_EQ(told[0].completion->cached_tokens, 0u);
    for (const std::size_t i : {1u, 2u}) {
      EXPECT_EQ(told[i].tokens, job.text_after(prompt, 6));
      EXPECT_GE(told[i].completion->cached_tokens, 32u) << "all but its last runs, " << (windows ? "with" : "without") << " windows";
    }
  }
}

TEST(Checkpoints, IfNoneStay_nobodyWaits) {
  SimulatedJob job({.seed = 7, .stages = 2, .slots = 2, .window = 3});
  job.start();
  AnswerRecorder first, second;
  job.engine().submit(question(Ids(40, 5), 1), first);
  job.engine().submit(question(Ids(40, 5), 1), second);
  job.until([&] { return job.engine().prompt_progress(1) && job.engine().prompt_progress(1)->computed > 8; });
  EXPECT_TRUE(job.engine().prompt_progress(2).has_value());
}

/// Requests that begin as others do, and some that are interrupted at any time.
void play_kept(std::uint64_t seed) {
  const bool guesses = seed % 3 > 0;
  JobShape shape{.seed = seed, .stages = 1 + static_cast<int>(seed % 4), .kept_texts = 1 + static_cast<int>(seed % 5)};
  if (guesses) shape.strategy = seed % 3 == 1 ? Strategy::kPipeInfer : Strategy::kSpeculative, shape.lookup = true;
  if (guesses && seed % 2 == 0) shape.drafters = {1};
  SimulatedJob job(shape_of(seed % 5 < 3, shape));
  job.start();
  std::mt19937_64 random(seed);
  const auto draw = [&](std::size_t below) { return random() % below; };
  std::vector<Ids> texts{job.random_prompt()};
  for (int request = 0; request < 8; ++request) {
    Ids text = texts[draw(texts.size())];
    text.resize(std::min<std::size_t>(40, draw(3) > 0 ? text.size() : 1 + draw(text.size())));
    for (auto more = static_cast<int>(draw(6)); more > 0; --more) text.push_back(static_cast<std::int32_t>(draw(8)));
    if (draw(4) == 0) {
      AnswerRecorder told;
      const RequestId id = job.engine().submit(question(text, 20), told);
      for (auto steps = draw(300); steps > 0; --steps) job.act();
      job.engine().cancel(id);
      if (told.completion) texts.push_back(put_behind(text, told.tokens));
      continue;
    }
    ask(job, text, 1 + static_cast<std::int32_t>(draw(20)));
    texts.push_back(text);
  }
}

TEST(Checkpoints, WhateverStays_theTextsAreTheSame) {
  const std::uint64_t seeds = thorough() ? 400 : 60;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    ASSERT_NO_THROW(play_kept(seed));
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace yamata::test
