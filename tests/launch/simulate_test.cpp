// yamata simulate: figures of clusters that are not there.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "process.hpp"

namespace yamata::test {
namespace {

using Json = nlohmann::json;

Outcome simulate(Arguments arguments) {
  arguments.insert(arguments.begin(), "simulate");
  return run(yamata(arguments));
}

TEST(Simulate, Table_hasARowPerClusterAndStrategyAndIsTheSameEveryTime) {
  const Outcome outcome = simulate({"--ranks", "2,5", "-n", "24"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1 + 6 + 2);
  for (const std::string word : {"tokens/s", "iterative", "speculative", "pipeinfer", "one more node", "half the latency"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word;
  EXPECT_EQ(simulate({"--ranks", "2,5", "-n", "24"}).out, outcome.out);
  EXPECT_NE(simulate({"--ranks", "2,5", "-n", "24", "-s", "5"}).out, outcome.out);
}

TEST(Simulate, Json_holdsWhatWasAskedForAndWhatCameOut) {
  const TemporaryFolder folder;
  const std::string json = folder / "s.json", csv = folder / "s.csv";
  const Outcome outcome = simulate({"--ranks", "4", "--strategy", "pipeinfer,iterative", "-n", "24", "--target-ms", "100", "--acceptance",
                                    "0.9", "--json", json, "--csv", csv});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json j = Json::parse(read_file(json));
  EXPECT_EQ(j["from"]["target_ms"], 100.0);
  EXPECT_EQ(j["from"]["draft_ms"], 5.0);
  ASSERT_EQ(j["results"].size(), 2u);
  EXPECT_EQ(j["results"][0]["strategy"], "pipeinfer");
  EXPECT_GT(j["results"][0]["ratio_to_iterative"].get<double>(), 1.5);
  EXPECT_NEAR(j["results"][1]["decode_tokens_per_s"].get<double>(), 10, 0.5);
  EXPECT_EQ(read_file(csv).rfind("ranks,strategy,", 0), 0u);
}

TEST(Simulate, RunsOwnFigures_areTaken) {
  const TemporaryFolder folder;
  const std::string json = folder / "run.json", simulated = folder / "s.json";
  ASSERT_EQ(run(yamata({"run", "-m", kModel, "-p", "Once upon a time", "-n", "8", "--json", json})).code, 0);
  const Outcome outcome =
      simulate({"--from", json, "-m", kModel, "--ranks", "1", "--strategy", "iterative", "-n", "8", "--json", simulated});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json measured = Json::parse(read_file(json)), j = Json::parse(read_file(simulated));
  const double ms = 1e3 * measured["per_rank"][0]["run_s"][0].get<double>();
  EXPECT_GT(ms, 0);
  EXPECT_DOUBLE_EQ(j["from"]["target_ms"].get<double>(), ms);
}

TEST(Simulate, MeasuredRuns_sayWhatFurtherRowsCost) {
  const TemporaryFolder folder;
  const std::string json = folder / "run.json";
  const auto rank = [](const char* role, std::vector<double> run_s) {
    return Json{{"role", role}, {"busy_s", 1}, {"runs", 9}, {"run_s", run_s}};
  };
  write_file(json, Json{{"head_us_per_token", 50},
                        {"first_choice_rate", 0.65},
                        {"per_rank", {rank("head", {0.1, 0, 0.14}), rank("stage", {0.1, 0.12, 0.12})}}}
                       .dump());
  const Arguments job{"--ranks", "3", "--strategy", "pipeinfer", "-n", "24", "--draft-ms", "10"};
  const auto with = [&](Arguments more) {
    more.insert(more.end(), job.begin(), job.end());
    return simulate(more);
  };
  const Outcome measured = with({"--from", json});
  ASSERT_EQ(measured.code, 0) << measured.err;
  EXPECT_EQ(measured.out, with({"--target-ms", "200", "--head-ms", "0.05", "--width-cost", "2,2.3,2.6"}).out);
  EXPECT_NE(measured.out, with({"--from", json, "--width-cost", "0"}).out);
}

TEST(Simulate, NonsenseFlag_isNamed) {
  const std::vector<std::pair<Arguments, std::string>> cases{{{"--ranks", "0"}, "--ranks"},
                                                             {{"--ranks", "2,x"}, "--ranks"},
                                                             {{"--ranks", "2000"}, "--ranks"},
                                                             {{"--strategy", "magic"}, "--strategy"},
                                                             {{"--slow", "1"}, "--slow"},
                                                             {{"--width-cost", "1,0"}, "--width-cost"},
                                                             {{"--acceptance", "0.9", "--acceptance4", "0.5"}, "--acceptance4"},
                                                             {{"--bandwidth", "0"}, "--bandwidth"},
                                                             {{"--from", kModel}, kModel},
                                                             {{"-m", kModel, "--ranks", "500"}, "500"}};
  for (const auto& [arguments, word] : cases) {
    const Outcome outcome = simulate(arguments);
    EXPECT_EQ(outcome.code, 1) << word;
    ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
    EXPECT_NE(outcome.complaints()[0].find(word), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace yamata::test
