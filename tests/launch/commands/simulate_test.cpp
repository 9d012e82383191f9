// yamata simulate: results for clusters that do not exist.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

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
  for (const std::string word : {"tokens/s", "iterative", "speculative", "pipeinfer", "one more machine", "half the latency"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word;
  EXPECT_EQ(simulate({"--ranks", "2,5", "-n", "24"}).out, outcome.out);
  EXPECT_EQ(simulate({"--ranks", "5,2-5+3,5", "-n", "24"}).out, outcome.out) << "each number of ranks once";
  EXPECT_NE(simulate({"--ranks", "2,5", "-n", "24", "-s", "5"}).out, outcome.out);
}

TEST(Simulate, Groups_shareLayersAndPayForTheirExchanges) {
  const TemporaryFolder folder;
  const std::string json = folder / "s.json";
  const auto tokens_per_s = [&](const char* latency_ms) {
    const Outcome outcome =
        simulate({"--ranks", "4", "--group", "1,4", "--strategy", "iterative", "-n", "24", "--latency", latency_ms, "--json", json});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const Json j = Json::parse(read_file(json));
    EXPECT_EQ(j["results"][0]["group"], 1);
    EXPECT_EQ(j["results"][1]["group"], 4);
    return std::pair(j["results"][0]["decode_tokens_per_s"].get<double>(), j["results"][1]["decode_tokens_per_s"].get<double>());
  };
  const auto [pipeline, group] = tokens_per_s("0.1");
  EXPECT_GT(group, 2 * pipeline);
  const auto [far_pipeline, far_group] = tokens_per_s("10");
  EXPECT_LT(far_group, far_pipeline) << "each layer waits for four messages";
  const Outcome outcome = simulate({"--ranks", "2", "--group", "4"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("--group"), std::string::npos) << outcome.err;
}

TEST(Simulate, Requests_shareThePipeline) {
  const TemporaryFolder folder;
  const std::string json = folder / "s.json";
  const auto of = [&](const char* requests) {
    const Outcome outcome = simulate({"--ranks", "4", "--strategy", "iterative", "-n", "48", "--requests", requests, "--json", json});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const Json row = Json::parse(read_file(json))["results"][0];
    EXPECT_LE(row["busy_busiest_stage"].get<double>(), 1.1);
    return row["decode_tokens_per_s"].get<double>();
  };
  const double one = of("1");
  EXPECT_NEAR(of("2") / one, 2, 0.2);
  EXPECT_NEAR(of("4") / one, 4, 0.4);
  EXPECT_GT(of("8") / one, 6);
}

TEST(Simulate, RequestsThatComeFaster_waitLonger) {
  const TemporaryFolder folder;
  const std::string json = folder / "s.json";
  const auto of = [&](const char* arrival, const char* slots) {
    const Outcome outcome = simulate({"--ranks", "2", "--strategy", "iterative", "-n", "16", "--requests", "40", "--target-ms", "100",
                                      "--prompt-tokens", "4", "--arrival", arrival, "--slots", slots, "--json", json});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    for (const char* word : {"first p50 ms", "p95 ms", "gap p50 ms", "p99 ms"})
      EXPECT_NE(outcome.out.find(word), std::string::npos) << word;
    return Json::parse(read_file(json));
  };
  const Json seldom = of("0.1", "4"), often = of("0.9", "4"), queued = of("0.9", "1"), all = of("all", "1");
  const auto figure = [](const Json& j, const char* name) { return j["results"][0][name].get<double>(); };
  EXPECT_EQ(seldom["from"]["arrival"], 0.1);
  EXPECT_FALSE(all["from"].contains("arrival"));
  EXPECT_EQ(often["from"]["slots"], 4);
  EXPECT_NEAR(figure(seldom, "decode_tokens_per_s"), 16 * 0.1, 0.4) << "as many tokens as are asked for";
  EXPECT_NEAR(figure(seldom, "first_token_p50_s"), 0.12, 0.02);
  EXPECT_NEAR(figure(seldom, "itl_p50_s"), 0.1, 0.01);
  EXPECT_GT(figure(often, "itl_p99_s"), 1.1 * figure(seldom, "itl_p99_s"));
  EXPECT_GT(figure(queued, "first_token_p50_s"), 3 * figure(often, "first_token_p50_s"));
  EXPECT_GT(figure(queued, "first_token_p95_s"), 1.5 * figure(queued, "first_token_p50_s"));
  EXPECT_NEAR(figure(all, "first_token_p50_s"), 20 * 1.62, 2) << "half of the texts are written before";
  EXPECT_NEAR(figure(all, "decode_tokens_per_s"), 16 / 1.62, 0.5);
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
  EXPECT_GT(j["results"][0]["runs_skipped"], 0);
  EXPECT_GT(j["results"][0]["cancel_latency_s"], 0.0);
  EXPECT_EQ(j["results"][1]["runs_skipped"], 0.0);
  EXPECT_EQ(read_file(csv).rfind("ranks,group,strategy,", 0), 0u);
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
  write_file(json, Json{{"head_us_per_token", 50}, {"per_rank", {rank("head", {0.1, 0, 0.14}), rank("stage", {0.1, 0.12, 0.12})}}}.dump());
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

/// The result of a run with two stages of 100 ms: four tokens repeatedly, and no guess source except suffixes of the text.
Json song() {
  std::vector<int> prompt, tokens;
  for (int i = 0; i < 40; ++i) (i < 8 ? prompt : tokens).push_back(i % 4);
  return {{"strategy", "pipeinfer"},
          {"head_us_per_token", 50},
          {"prompt_token_ids", prompt},
          {"token_ids", tokens},
          {"per_rank", {{{"role", "head"}, {"run_s", {0.1}}}, {{"role", "stage"}, {"run_s", {0.1}}}}}};
}

/// The same with a draft on two ranks, of 10 and 20 ms, whose first choice is always or never accepted.
Json drafted_song(bool right) {
  Json j = song();
  j["per_rank"].push_back({{"role", "drafter"}, {"layers", "0-1"}, {"run_s", {0.01}}});
  j["per_rank"].push_back({{"role", "drafter"}, {"layers", "2-3"}, {"run_s", {0.02}}});
  for (std::size_t i = 0; i < j["token_ids"].size(); ++i)
    j["choices"].push_back({{"probabilities", {0.8, 0.1}}, {"accepted", right ? Json(0) : Json(nullptr)}});
  return j;
}

class SimulateFrom : public testing::Test {
 protected:
  Outcome play(const Json& run, Arguments more) {
    write_file(folder_ / "run.json", run.dump());
    for (const std::string& word : {std::string("--from"), folder_ / "run.json", std::string("--json"), folder_ / "s.json"})
      more.push_back(word);
    return simulate(more);
  }
  Json result(const Json& run, const Arguments& more) {
    const Outcome outcome = play(run, more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(read_file(folder_ / "s.json"));
  }

 private:
  TemporaryFolder folder_;
};

double ratio(const Json& j) { return j["results"].back()["ratio_to_iterative"]; }

TEST_F(SimulateFrom, RecordedText_isWrittenAndGuessedFrom) {
  const Json recorded = result(song(), {"--ranks", "2"});
  EXPECT_EQ(recorded["from"]["prompt_tokens"], 8);
  EXPECT_EQ(recorded["from"]["predict"], 32);
  ASSERT_EQ(recorded["results"].size(), 3u);
  EXPECT_GT(ratio(recorded), 3);
  const Json other = result(song(), {"--ranks", "2", "--prompt-tokens", "20", "-n", "32", "--drafters", "1", "--acceptance", "0.01"});
  EXPECT_EQ(other["from"]["prompt_tokens"], 20);
  EXPECT_LT(ratio(other), 2);
  for (const Arguments& nobody :
       {Arguments{"--strategy", "speculative", "--no-lookup"}, Arguments{"--strategy", "pipeinfer", "--no-lookup"}}) {
    const Outcome outcome = play(song(), nobody);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("--drafters 1"), std::string::npos) << outcome.err;
  }
}

TEST_F(SimulateFrom, RecordedDraft_isAsFastAndAsRightAsItWas) {
  const Arguments job{"--ranks", "4", "--strategy", "pipeinfer", "--no-lookup"};
  const Json right = result(drafted_song(true), job), wrong = result(drafted_song(false), job);
  EXPECT_EQ(right["from"]["drafters"], 1);
  EXPECT_DOUBLE_EQ(right["from"]["draft_ms"].get<double>(), 30);
  EXPECT_EQ(right["from"]["acceptance"], 1);
  EXPECT_EQ(wrong["from"]["acceptance"], 0);
  EXPECT_GT(ratio(right), 2);
  EXPECT_LT(ratio(wrong), 1.2);
}

TEST_F(SimulateFrom, DraftHeads_waitForTheTargetsHiddenStates) {
  const Arguments job{"--ranks", "4", "--strategy", "pipeinfer", "--no-lookup"};
  Json heads = drafted_song(true);
  heads["per_rank"][1]["feature_bytes"] = 8192;
  EXPECT_LT(ratio(result(heads, job)), ratio(result(drafted_song(true), job)));
  EXPECT_NE(play(heads, job).err.find("draft heads"), std::string::npos);
}

TEST_F(SimulateFrom, DraftThatTookTurnsWithTheHead_takesWhatItTook) {
  Json run = song();
  run["per_rank"][0]["draft_run_s"] = {0.07, 0.08};
  const Json j = result(run, {"--ranks", "4"});
  EXPECT_EQ(j["from"]["drafters"], 1);
  EXPECT_DOUBLE_EQ(j["from"]["draft_ms"].get<double>(), 70);
}

/// The song by two ranks that share its layers: a quarter of 100 ms is exchanges.
Json shared_song() {
  Json run = song();
  for (int member = 0; member < 2; ++member) {
    Json& rank = run["per_rank"][static_cast<std::size_t>(member)];
    rank["layers"] = "0-3";
    rank["share"] = member == 0 ? 0.7 : 0.3;
    rank["busy_s"] = 4;
    rank["exchange_s"] = 1;
  }
  return run;
}

TEST_F(SimulateFrom, WiderRunsOfSharedLayers_lengthenComputingAlone) {
  Json run = shared_song();
  for (Json& rank : run["per_rank"]) rank["run_s"] = {0.1};
  run["model"] = {{"layers", 4}, {"width", 64}, {"vocabulary", 256}};
  const auto four_texts = [&](const Json& of_run, const char* width_cost) {
    const Json j = result(of_run, {"--ranks", "2", "--group", "2", "--strategy", "iterative", "--latency", "0", "--wake-up", "0",
                                   "--head-ms", "0", "--requests", "4", "--width-cost", width_cost});
    return 4e3 / j["results"][0]["decode_tokens_per_s"].get<double>();
  };
  EXPECT_NEAR(four_texts(run, "1,1,1,1"), 100, 1);
  EXPECT_NEAR(four_texts(run, "1,1.4,1.7,2"), 2 * 75 + 25, 1) << "exchanges of few bytes take what they took";
  run["model"]["width"] = 64 * 4096;
  const double row_ms = 1e3 * 27'000 * 64 * 4 / 2 / 125e6;
  EXPECT_NEAR(four_texts(run, "1,1,1,1"), 100 + 3 * row_ms, 0.15 * row_ms) << "with more bytes, each row takes their time";
}

TEST_F(SimulateFrom, SharedLayers_takeWhatTheyTookAndTheirExchangesCountOnce) {
  Json run = shared_song();
  run["per_rank"][1]["run_s"] = {0.06};
  const Arguments job{"--ranks", "2", "--strategy", "iterative", "--latency", "1", "--wake-up", "0", "--head-ms", "0"};
  const auto played = [&](const char* group) {
    Arguments arguments = job;
    arguments.insert(arguments.end(), {"--group", group});
    return result(run, arguments);
  };
  const Json group = played("2"), pipeline = played("1");
  EXPECT_NEAR(1e3 / group["results"][0]["decode_tokens_per_s"].get<double>(), 100 + 2, 0.5)
      << "the slower member's time, and the runs' own way";
  EXPECT_NEAR(group["from"]["target_ms"].get<double>(), 0.75 * 160, 1e-6) << "both members' columns without exchanges";
  EXPECT_NEAR(1e3 / pipeline["results"][0]["decode_tokens_per_s"].get<double>(), 0.75 * 160 + 2, 0.5);
  run["per_rank"][0]["exchange_s"] = 5;
  EXPECT_NE(play(run, job).err.find("'exchange_s'"), std::string::npos);
}

TEST_F(SimulateFrom, RunWithoutChoices_isTakenByItsRate) {
  Json run = drafted_song(true);
  run.erase("choices");
  run["first_choice_rate"] = 0.25;
  run["per_rank"].push_back({{"role", "lost"}, {"layers", "-"}, {"run_s", Json::array()}});
  const Json j = result(run, {"--ranks", "4"});
  EXPECT_EQ(j["from"]["drafters"], 1);
  EXPECT_EQ(j["from"]["acceptance"], 0.25);
  EXPECT_EQ(j["results"].size(), 3u);
}

TEST_F(SimulateFrom, RunOfWiderRunsOnly_isTakenByTheirLine) {
  Json run = song();
  run["per_rank"][0]["run_s"] = {0, 0.11, 0.12, 0};
  run["per_rank"][1]["run_s"] = {0, 0.22, 0.24, 0, 9};
  const Json j = result(run, {"--strategy", "iterative"});
  EXPECT_NEAR(j["from"]["target_ms"].get<double>(), 300, 1e-6);
  ASSERT_EQ(j["results"].size(), 3u);
  EXPECT_EQ(j["results"][0]["ranks"], 2);
  EXPECT_EQ(j["results"][1]["ranks"], 3);
  EXPECT_EQ(j["results"][2]["ranks"], 4);
}

TEST_F(SimulateFrom, ColdWideRun_costsNoMoreThanItsRowsOneByOne) {
  Json cold = drafted_song(true), warm = cold;
  for (int stage = 0; stage < 2; ++stage)
    cold["per_rank"][stage]["run_s"] = {0.1, 0, 9.0}, warm["per_rank"][stage]["run_s"] = {0.1, 0, 0.3};
  const Arguments job{"--strategy", "speculative"};
  EXPECT_DOUBLE_EQ(ratio(result(cold, job)), ratio(result(warm, job)));
}

TEST_F(SimulateFrom, RunWithoutADraft_getsOneWhereFlagsSpeakOfIt) {
  EXPECT_EQ(result(song(), {})["from"]["drafters"], 0);
  EXPECT_EQ(result(song(), {"--acceptance", "0.9"})["from"]["drafters"], 1);
  EXPECT_EQ(result(song(), {"--draft-ms", "3"})["from"]["drafters"], 1);
  Json iterative = song();
  iterative["strategy"] = "iterative";
  EXPECT_EQ(result(iterative, {})["from"]["drafters"], 0);
  const Outcome outcome = play(song(), {"-md", kModel});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("-md needs -m"), std::string::npos) << outcome.err;
}

TEST_F(SimulateFrom, RunOfAPipe_isReadOnce) {
  const TemporaryFolder folder;
  write_file(folder / "run.json", song().dump());
  Arguments command{"sh", "-c", R"(cat "$0" | "$@")", folder / "run.json"};
  for (const std::string& word : yamata({"simulate", "--from", "-", "--ranks", "2"})) command.push_back(word);
  const Outcome outcome = run(command);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(SimulateFrom, DamagedFile_isNamedInOneLine) {
  const std::vector<std::pair<const char*, Json>> damages{{"/prompt_token_ids", Json::array()}, {"/prompt_token_ids/0", 1.5},
                                                          {"/token_ids/3", 3000000000},         {"/token_ids/3", "x"},
                                                          {"/choices/0/accepted", 2},           {"/choices/0/accepted", -1},
                                                          {"/choices/0/probabilities/1", 0.9},  {"/choices/0/probabilities/0", 3},
                                                          {"/choices", Json::array()},          {"/head_us_per_token", -1e9},
                                                          {"/per_rank/0/run_s/0", -1},          {"/per_rank/0/run_s/0", 0},
                                                          {"/per_rank", Json::array()},         {"/per_rank/0/role", nullptr}};
  for (const auto& [where, value] : damages) {
    Json run = drafted_song(true);
    run[Json::json_pointer(where)] = value;
    const Outcome outcome = play(run, {"--ranks", "4"});
    EXPECT_EQ(outcome.code, 2) << where;
    ASSERT_EQ(outcome.complaints().size(), 1u) << where << outcome.err;
    EXPECT_NE(outcome.complaints()[0].find("run.json"), std::string::npos) << outcome.err;
  }
}

TEST(Simulate, ExampleOfItsPage_isWhatItPrints) {
  const std::string page = read_file(test::source_path("/docs/simulate.md")), start = "```\n$ build/yamata simulate ";
  const auto begin = page.find(start), line_end = page.find('\n', begin + start.size()), end = page.find("\n```", line_end);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  std::istringstream words(page.substr(begin + start.size(), line_end - begin - start.size()));
  Arguments arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  EXPECT_EQ(simulate(arguments).out, page.substr(line_end + 1, end - line_end)) << "paste the new output into docs/simulate.md";
}

TEST(Simulate, OneRank_isNoRanks) {
  const Outcome outcome = simulate({"--ranks", "1"});
  EXPECT_NE(outcome.out.find("on 1 rank:"), std::string::npos) << outcome.out;
}

TEST(Simulate, NonsenseFlag_isNamed) {
  const std::vector<std::pair<Arguments, std::string>> cases{{{"--ranks", "0"}, "--ranks"},
                                                             {{"--ranks", "2,x"}, "--ranks"},
                                                             {{"--ranks", "2000"}, "--ranks"},
                                                             {{"--strategy", "magic"}, "--strategy"},
                                                             {{"--slow", "1"}, "--slow"},
                                                             {{"--slow", "99=2"}, "--slow names rank 99, but there are 8 at most"},
                                                             {{"--slow", "4=2", "--ranks", "2,4"}, "--slow names rank 4"},
                                                             {{"--width-cost", "1,0"}, "--width-cost"},
                                                             {{"--acceptance", "0.9", "--acceptance4", "0.5"}, "--acceptance4"},
                                                             {{"--bandwidth", "0"}, "--bandwidth"},
                                                             {{"-n", "1"}, "-n 2"},
                                                             {{"-n", "0"}, "-n must be between 1 and 10000"},
                                                             {{"--requests", "0"}, "--requests"},
                                                             {{"--arrival", "0"}, "--arrival must be all, or requests per second"},
                                                             {{"--arrival", "now"}, "--arrival"},
                                                             {{"--slots", "65"}, "--slots"},
                                                             {{"--from", kModel}, kModel},
                                                             {{"-m", kModel, "--ranks", "500"}, "500"}};
  for (const auto& [arguments, word] : cases) {
    const Outcome outcome = simulate(arguments);
    EXPECT_EQ(outcome.code, word == kModel ? 2 : 1) << word;
    ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
    EXPECT_NE(outcome.complaints()[0].find(word), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace yamata::test
