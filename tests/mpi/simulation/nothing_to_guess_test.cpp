// Random texts without repetitions: guessing from suffixes costs almost nothing, however expensive a row is, with one rank and with many.
#include <gtest/gtest.h>

#include "mpi/simulation/virtual_cluster.hpp"

namespace yamata::simulation {
namespace {

Scenario ranks_without_a_draft(int stages, Strategy strategy, double row, std::int32_t vocabulary) {
  Scenario s;
  s.stages.assign(static_cast<std::size_t>(stages), 24 * kMillisecond / stages);
  s.slowness.assign(s.stages.size(), 1.0);
  s.width = WidthCost({row});
  s.text.vocabulary = vocabulary;
  s.decode.strategy = strategy;
  s.decode.lookup = strategy != Strategy::kIterative;
  s.decode.generate = 300;
  s.decode.context = 400;
  s.decode.guess_cells = 128;
  s.decode.sequences = {0, 129};
  return s;
}

double seconds(Scenario s) {
  double all = 0;
  for (s.text.seed = 0; s.text.seed < 3; ++s.text.seed) {
    const Outcome outcome = simulate(s);
    EXPECT_TRUE(outcome.exact);
    all += 1e-9 * static_cast<double>(outcome.arrived.back());
  }
  return all;
}

TEST(NothingToGuess, Suffixes_costNextToNothing) {
  for (const int stages : {1, 2, 4, 8}) {
    for (const std::int32_t vocabulary : {8, 64, 2000}) {
      const double least =
          vocabulary == 8 ? 0.93 : 0.98;  // of 8 tokens, every eighth guess is right by chance, and for a while some seem to be better
      for (const double row : {0.02, 0.1, 0.3, 1.0}) {
        const double iterative = seconds(ranks_without_a_draft(stages, Strategy::kIterative, row, vocabulary));
        for (const Strategy strategy : {Strategy::kSpeculative, Strategy::kPipeInfer}) {
          EXPECT_LT(seconds(ranks_without_a_draft(stages, strategy, row, vocabulary)), iterative / least)
              << stages << " stages, " << vocabulary << " tokens, a row costs " << row << ", strategy " << static_cast<int>(strategy);
        }
      }
    }
  }
}

/// The first half is random; the second half repeats a sentence.
TEST(NothingToGuess, TextThatBeginsToRepeatItself_isGuessedSoon) {
  for (const int stages : {1, 4}) {
    for (const double row : {0.1, 0.3}) {
      Scenario s = ranks_without_a_draft(stages, Strategy::kIterative, row, 64);
      Recording recording;
      for (std::int32_t i = 0; i < 150; ++i) recording.tokens.push_back((i * i * 31 + i * 7 + i / 3) % 64);
      for (std::int32_t i = 0; i < 150; ++i) recording.tokens.push_back(i % 12 + 20);
      recording.prompt = {1};
      s.recording = recording;
      s.prompt = 1;
      const Outcome alone = simulate(s);
      s.decode.strategy = stages > 1 ? Strategy::kPipeInfer : Strategy::kSpeculative;
      s.decode.lookup = true;
      const Outcome guessed = simulate(s);
      const auto second_half = [](const Outcome& outcome) { return outcome.arrived[290] - outcome.arrived[190]; };
      EXPECT_LT(2 * second_half(guessed), second_half(alone)) << stages << " stages, a row costs " << row;
      EXPECT_LT(guessed.arrived[140], alone.arrived[140] * 100 / 98) << stages << " stages, a row costs " << row;
    }
  }
}

}  // namespace
}  // namespace yamata::simulation
