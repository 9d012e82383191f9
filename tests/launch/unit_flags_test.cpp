// --units: valid values, errors for invalid ones, and runs on units.
#include "launch/program/options/unit_flags.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <nlohmann/json.hpp>

#include "node/error.hpp"
#include "tests/launch/process.hpp"

namespace yamata {
namespace {

std::string fault_of(const std::string& text, const char* flag = "--units") {
  try {
    parse_units(text, flag);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(UnitFlags, nameCoresAndShares) {
  EXPECT_TRUE(parse_units("auto").empty());
  const std::vector<UnitSpec> two = parse_units("cpu:0-3+cpu:4,6,8-9");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].name, "cpu:0-3");
  EXPECT_EQ(two[0].cpus, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(two[1].cpus, (std::vector<int>{4, 6, 8, 9}));
  EXPECT_FALSE(two[0].share);
  const std::vector<UnitSpec> shared = parse_units("cpu:0=0.6+cpu:1=0.3+cpu:2=0.1");
  ASSERT_EQ(shared.size(), 3u);
  EXPECT_EQ(*shared[1].share, 0.3);
  EXPECT_EQ(names_of(shared), "cpu:0+cpu:1+cpu:2");
  EXPECT_NEAR(*parse_units("cpu:0+cpu:1=0.4").front().share, 0.6, 1e-9) << "the rest";
  const std::vector<UnitSpec> devices = parse_units("cpu+cuda:0=0.6+cuda:1=0.3");
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_TRUE(devices[0].takes_the_rest());
  EXPECT_NEAR(*devices[0].share, 0.1, 1e-9);
  EXPECT_TRUE(devices[1].device && devices[2].device);
  EXPECT_EQ(names_of(devices), "cpu+cuda:0+cuda:1");
  EXPECT_NO_THROW(require_idle_threads(devices)) << "-t is for cpu";
  EXPECT_THROW(require_idle_threads(parse_units("cpu:0+cuda:0")), UsageError);
  EXPECT_EQ(parse_units("cpu:0=0.333+cpu:1=0.333+cpu:2=0.334").size(), 3u);
}

TEST(UnitFlags, areRefusedWhereTheyMakeNoSense) {
  for (const auto& [text, word] :
       std::vector<std::pair<std::string, std::string>>{{"cpu:0=0.6+cpu:1=0.6", "add up to 1.2"},
                                                        {"cpu:0=0.5+cpu:1+cpu:2", "none"},
                                                        {"cpu:0=0.5+cpu:1=0.5+cpu:2", "nothing is left for cpu:2"},
                                                        {"cpu+cpu:1", "name which they are"},
                                                        {"cuda:0+cpu+cuda:0", "cuda:0 is named twice"},
                                                        {"cpu:0-", "write lists such as 0-3 or 0,2"},
                                                        {"cpu:0-3+cpu:3", "core 3"},
                                                        {"cpu:0,0", "core 0"},
                                                        {"cpu:", "no cores"},
                                                        {"cpu:+cpu:1", "no cores"},
                                                        {"cpu:0++cpu:1", "''"},
                                                        {"", "''"},
                                                        {"npu:0", "npu:0"},
                                                        {"cpu:a", "'a'"},
                                                        {"cpu:-1", "'-1'"},
                                                        {"cpu:0=1.5", "1.5"},
                                                        {"cpu:0=0", "cpu:0=0"},
                                                        {"cpu:0=x", "cpu:0=x"},
                                                        {"cpu:0=0.5=0.5", "cpu:0=0.5=0.5"},
                                                        {"cpu:0+cpu:1+cpu:2+cpu:3+cpu:4+cpu:5+cpu:6+cpu:7+cpu:8", "9"}}) {
    EXPECT_NE(fault_of(text).find(word), std::string::npos) << text << ": " << fault_of(text);
    for (const char* flag : {"--units", "--draft-units"}) EXPECT_TRUE(fault_of(text, flag).starts_with(std::string(flag) + ": ")) << text;
  }
}

TEST(UnitFlags, wholeLayersOfADevice) {
  EXPECT_EQ(parse_gpu_layers("auto", parse_units("cpu+cuda:0")), wire::kLayersThatFit);
  EXPECT_EQ(parse_gpu_layers("12", {}), 12);
  EXPECT_EQ(parse_gpu_layers("3", parse_units("cpu:0+cuda:0+cpu:1")), 3);
  EXPECT_EQ(parse_gpu_layers("0", parse_units("cpu:0=0.3+cpu:1")), 0);
  for (const auto& [layers, units] : std::vector<std::pair<std::string, std::string>>{{"3", "cpu"},
                                                                                      {"3", "cuda:0"},
                                                                                      {"3", "cpu:0+cpu:1"},
                                                                                      {"3", "cpu+cuda:0+cuda:1"},
                                                                                      {"3", "cpu=0.5+cuda:0=0.5"},
                                                                                      {"0", "cpu+cuda:0=0.5"},
                                                                                      {"-1", "auto"},
                                                                                      {"1.5", "auto"},
                                                                                      {"all", "auto"},
                                                                                      {"", "auto"},
                                                                                      {"9999999", "auto"}}) {
    try {
      parse_gpu_layers(layers, parse_units(units));
      FAIL() << layers << " on " << units;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("-ngl"), std::string::npos) << error.what();
    }
  }
}

TEST(UnitFlags, asManyUnitsAsPiecesOfALayer) {
  Hyperparameters h;
  h.heads = 2, h.kv_heads = 1, h.head_dim = 32, h.dim = 64, h.ffn = 96, h.vocabulary = 100;
  EXPECT_NO_THROW(require_fit(parse_units("cpu:0+cpu:1"), h));
  EXPECT_THROW(require_fit(parse_units("cpu:0+cpu:1+cpu:2"), h), UsageError);
}

/// Expects the command to fail with code 1 and one line that contains this word.
void expect_refused(const test::Arguments& flags, const std::string& word) {
  test::Arguments arguments{"run", "-m", test::kModel, "-p", "x", "-n", "2"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const test::Outcome outcome = test::run(test::yamata(arguments));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
  EXPECT_NE(outcome.complaints()[0].find(word), std::string::npos) << outcome.err;
}

TEST(UnitFlags, badOnesAreOneLineOfTheCommand) {
  expect_refused({"--units", "cpu:0=0.9+cpu:1=0.9"}, "add up");
  expect_refused({"--units", "cpu:4000"}, "core 4000");
  expect_refused({"--units", "cpu:0", "-t", "1"}, "-t");
  expect_refused({"--preset", "ghidorah"}, "--units");
  expect_refused({"--preset", "unheard"}, "--preset");
  expect_refused({"--preset", "sequential", "--units", "cpu:0+cpu:1"}, "--units");
  expect_refused({"--preset", "sequential", "-md", test::kModel}, "-md");
  expect_refused({"--preset", "medusa"}, "--heads");
  expect_refused({"--preset", "pipeinfer"}, "-md");
  expect_refused({"--preset", "dovetail", "--units", "cpu:0"}, "--draft-units");
  expect_refused({"--preset", "pipeinfer", "-md", test::kModel, "--strategy", "iterative"}, "--strategy pipeinfer");
  expect_refused({"--draft-units", "cpu:4000", "-md", test::kModel}, "--draft-units: this process may not use core 4000");
  for (const char* flag : {"--units", "--draft-units"})
    expect_refused({flag, "cuda:99", "-md", test::kModel}, flag + std::string(" cuda:99: "));
}

TEST(UnitFlags, unitsGiveTheTextOfOneThread) {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  sched_getaffinity(0, sizeof(usable), &usable);
  std::vector<std::string> cores;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &usable)) cores.push_back("cpu:" + std::to_string(cpu));
  if (cores.size() < 2) GTEST_SKIP() << "this machine has one core";
  test::TemporaryFolder folder;
  const auto result = [&](const test::Arguments& flags) {
    test::Arguments arguments{"run", "-m", test::kModel,        "-p",     "Once upon a time",
                              "-n",  "20", "--logits-checksum", "--json", folder / "r.json"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const test::Outcome outcome = test::run(test::yamata(arguments));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(test::read_file(folder / "r.json"));
  };
  const auto alone = result({"-t", "1"});
  for (const std::string& units : {cores[0] + "+" + cores[1], cores[0] + "=0.8+" + cores[1] + "=0.2"}) {
    const auto shared = result({"--units", units});
    EXPECT_EQ(shared["logits_checksum"], alone["logits_checksum"]) << units;
    EXPECT_EQ(shared["token_ids"], alone["token_ids"]) << units;
    EXPECT_EQ(shared["per_rank"][0]["threads"], 2);
    EXPECT_EQ(shared["per_rank"][0]["device"].get<std::string>().rfind(cores[0] + "=0.", 0), 0u) << shared["per_rank"][0]["device"];
  }
}

}  // namespace
}  // namespace yamata
