// yamata plan: layouts of machines that are described by flags and files.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/launch/process.hpp"

namespace yamata::test {
namespace {

using Json = nlohmann::json;

Outcome plan(Arguments arguments, int ranks = 0) {
  arguments.insert(arguments.begin(), {"plan", "-m", kModel, "-t", "1", "-n", "16"});
  return run(yamata(arguments, ranks));
}

TEST(Plan, Table_hasTheBestFirstAndTheCommandThatStartsIt) {
  const TemporaryFolder folder;
  const std::string json = folder / "plan.json";
  const Outcome outcome = plan({"--ranks", "3", "-md", YAMATA_SOURCE_DIR "/models/tales-draft-q8_0.gguf", "--rows", "4", "--json", json});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json j = Json::parse(read_file(json));
  ASSERT_EQ(j["hosts"].size(), 3u);
  ASSERT_EQ(j["layouts"].size(), 4u);
  const Json& best = j["layouts"][0];
  EXPECT_GE(best["decode_tokens_per_s"].get<double>(), j["layouts"][1]["decode_tokens_per_s"].get<double>());
  EXPECT_TRUE(best["fits"].get<bool>());
  for (const std::string word : {"tokens/s", "TTFT s", "most MiB", "why", "yamata run"}) EXPECT_NE(outcome.out.find(word), std::string::npos) << word;
  EXPECT_NE(outcome.out.find(best["hosts"].get<std::string>()), std::string::npos);
  EXPECT_NE(outcome.out.find("--strategy " + best["strategy"].get<std::string>()), std::string::npos);
}

TEST(Plan, ProfilesAndHostfile_sayWhoTheMachinesAre) {
  const TemporaryFolder folder;
  const auto write_profile = [&](const std::string& host, double time_s) {
    write_file(folder / (host + ".json"), Json{{"machine", {{"host", host}, {"available_bytes", 1e9}}},
                                               {"model", {{"weight_bytes", 1e7}, {"threads", 4}}},
                                               {"widths", {{{"width", 1}, {"time_s", time_s}}, {{"width", 4}, {"time_s", 1.3 * time_s}}}}}
                                              .dump());
  };
  write_profile("oak", 1.0);
  write_profile("ash", 0.5);
  const auto hosts = [&](Arguments arguments) {
    arguments.insert(arguments.end(), {"--profiles", folder / "", "--latency", "0.01", "--json", folder / "out.js"});
    const Outcome outcome = plan(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(read_file(folder / "out.js"))["hosts"];
  };
  const Json all = hosts({});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["name"], "ash");
  EXPECT_DOUBLE_EQ(all[0]["ns_per_byte"], 50);
  EXPECT_DOUBLE_EQ(all[1]["ns_per_byte"], 100);
  EXPECT_EQ(all[1]["threads"], 4);
  write_file(folder / "hosts", "# ours\n\noak slots=1\nash\n");
  const Json named = hosts({"--hostfile", folder / "hosts", "--slow", "1=3"});
  EXPECT_EQ(named[0]["name"], "oak");
  EXPECT_DOUBLE_EQ(named[1]["ns_per_byte"], 150);
}

TEST(Plan, WhatMakesNoSense_isRefused) {
  const TemporaryFolder folder;
  write_file(folder / "empty", "# nobody\n");
  write_file(folder / "bad.json", "{}");
  const auto refused = [](const Arguments& arguments, const std::string& word) {
    const Outcome outcome = plan(arguments);
    EXPECT_EQ(outcome.code, 1) << word;
    EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  refused({"--ranks", "0"}, "--ranks");
  refused({"--ranks", "2", "--slow", "2=2"}, "--slow");
  refused({"--hostfile", folder / "empty"}, "names no host");
  refused({"--hostfile", folder / "absent"}, "absent");
  refused({"--hostfile", folder / "empty", "--ranks", "2"}, "leave it out");
  refused({"--profiles", folder / ""}, "is no profile");
  refused({"--profiles", folder / "absent"}, "absent");
  refused({"--acceptance", ".9", "--acceptance4", ".8"}, "--acceptance4");
  refused({"-c", "1000000000"}, "fits");
}

TEST(Plan, UnderMpirun_isRefused) {
  const Outcome outcome = plan({}, 2);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("without mpirun"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace yamata::test
