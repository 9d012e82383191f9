// yamata profile: tests that the numbers exist, not their values.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launch/commands/model_timer.hpp"
#include "launch/commands/profile_report.hpp"
#include "node/cpu/cpu_unit.hpp"
#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

namespace yamata::test {
namespace {

using Json = nlohmann::json;

Outcome profile(Arguments arguments, int ranks = 0) {
  arguments.insert(arguments.begin(), {"profile", "--memory-mib", "16", "-r", "2"});
  return run(yamata(arguments, ranks));
}

void expect_positive(const Json& object, const std::vector<std::string>& names) {
  for (const std::string& name : names) EXPECT_GT(object.at(name).get<double>(), 0) << name << " of " << object.dump();
}

TEST(Profile, OfAMachine_hasEveryNumberOfThreads) {
  const TemporaryFolder folder;
  const Outcome outcome = profile({"-t", "2", "--numa", "distribute", "--json", folder / "p.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json j = Json::parse(read_file(folder / "p.json"));
  for (const char* name : {"host", "cpu", "isa"}) EXPECT_FALSE(j["machine"].at(name).get<std::string>().empty()) << name;
  EXPECT_EQ(j["machine"]["numa"], "distribute");
  EXPECT_FALSE(j["version"].get<std::string>().empty());
  EXPECT_EQ(j["date"].get<std::string>().size(), 20u);
  EXPECT_EQ(j["rounds"], 2);
  EXPECT_EQ(j["probe_memory_bytes"], 16 << 20);
  ASSERT_EQ(j["threads"].size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(j["threads"][i]["threads"], i + 1);
    expect_positive(j["threads"][i], {"read_bytes_per_s", "int8_ops_per_s", "float_ops_per_s", "barrier_s"});
  }
  EXPECT_FALSE(j.contains("model"));
  for (const std::string word : {"read GB/s", "int8 Gop/s", "float Gop/s", "barrier us"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word;
}

TEST(Profile, OfAModel_hasAFloorForEveryWidthAndContext) {
  const TemporaryFolder folder;
  const Outcome outcome = profile({"-m", kModel, "--widths", "1,4", "--contexts", "32,128", "--json", folder / "p.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json j = Json::parse(read_file(folder / "p.json"));
  expect_positive(j["model"], {"weight_bytes", "weight_numbers", "threads", "ridge_width"});
  ASSERT_EQ(j["widths"].size(), 2u);
  ASSERT_EQ(j["contexts"].size(), 2u);
  for (const char* kind : {"widths", "contexts"}) {
    for (const Json& run : j[kind]) {
      expect_positive(run,
                      {"width", "bytes", "int8_ops", "float_ops", "ops", "min_read_s", "min_compute_s", "min_time_s", "time_s", "ratio"});
      EXPECT_EQ(run["samples_s"].size(), 2u);
      EXPECT_EQ(run["min_time_s"].get<double>(), std::max(run["min_read_s"].get<double>(), run["min_compute_s"].get<double>()));
    }
  }
  EXPECT_EQ(j["widths"][1]["int8_ops"].get<double>(), 4 * j["widths"][0]["int8_ops"].get<double>());
  EXPECT_EQ(j["widths"][0]["int8_ops"].get<double>(), 2 * j["model"]["weight_numbers"].get<double>());
  // 96 more cells: keys and values of 8 layers, as half floats.
  const auto cache_bytes = j["contexts"][1]["bytes"].get<double>() - j["contexts"][0]["bytes"].get<double>();
  EXPECT_GT(cache_bytes, 0);
  EXPECT_EQ(std::fmod(cache_bytes, 96.0 * 8 * 2 * 2), 0);
  EXPECT_NE(outcome.out.find("by width"), std::string::npos);
}

TEST(Profile, MinTime_isTheLongerOfReadingAndComputing) {
  const ThreadCeiling ceiling = median({{2, 100, 40, 5, 1}, {2, 1, 10, 6, 9}, {2, 300, 9, 2, 0}});
  EXPECT_EQ(ceiling.threads, 2);
  EXPECT_EQ(ceiling.barrier_s, 1);
  EXPECT_DOUBLE_EQ(min_time({200, 10, 2}, ceiling).time_s(), 2);
  EXPECT_DOUBLE_EQ(min_time({100, 10, 2}, ceiling).time_s(), 1.4);
  ModelProfile model;
  model.weights = {400, 5, 0};
  EXPECT_DOUBLE_EQ(ridge_width(model, ceiling), 8);
  EXPECT_DOUBLE_EQ((RunTimes{1, 0, {}, {3, 1, 2, 10}}.time_s()), 2.5);
}

TEST(Profile, OneRound_hasNoMedian) {
  Profile profile;
  profile.rounds = 1;
  EXPECT_NE(to_table(profile).find("; one round\n"), std::string::npos) << to_table(profile);
  profile.rounds = 3;
  EXPECT_NE(to_table(profile).find("; medians of 3 rounds\n"), std::string::npos) << to_table(profile);
}

TEST(Profile, Demand_isOfTheCellsInWindows) {
  ModelFile model = ModelFile::open(test::source_path("/models/tales-target-q8_0.gguf"));
  CpuUnit unit({-1}, cpu::choose_isa());
  const auto demand = [&](std::int64_t window, std::int64_t pattern, int width, int context) {
    model.h.layer.window = window, model.h.window_pattern = pattern;
    return ModelTimer(model, unit, {64, 1, CacheType::kF16}).demand(width, context);
  };
  const RunDemand all = demand(0, 0, 2, 40), none = demand(0, 0, 2, 0);
  EXPECT_EQ(demand(64, 0, 2, 40).bytes, all.bytes);
  EXPECT_EQ(demand(8, 0, 2, 40).bytes, demand(0, 0, 2, 7).bytes);
  EXPECT_DOUBLE_EQ(demand(8, 2, 2, 40).bytes, (all.bytes + demand(0, 0, 2, 7).bytes) / 2) << "every second of 8 layers";
  EXPECT_EQ(demand(8, 0, 2, 40).float_ops, demand(8, 0, 2, 30).float_ops);
  EXPECT_GT(demand(8, 0, 2, 40).float_ops, none.float_ops);
}

TEST(Profile, NonsenseFlag_isNamed) {
  const std::vector<std::pair<Arguments, std::string>> cases{
      {{"-r", "0"}, "-r"},
      {{"-t", "-1"}, "-t"},
      {{"--widths", "1-"}, "--widths"},
      {{"-m", kModel, "--contexts", "1000000"}, "--contexts"},
      {{"-ctv", "q2"}, "-ctv"},
      {{"--numa", "near"}, "--numa"},
      {{"--memory-mib", "x"}, "--memory-mib"},
      {{"-m", kModel, "--heads", "h"}, "--heads has no effect without --tree-from"},
      {{"--tree-out", "t"}, "--tree-out has no effect without --tree-from"},
      {{"-m", kModel, "--tree-from", "r", "--tree-out", "t", "--mtp"}, "needs --units"},
      {{"--units", "cpu:0", "--tree-from", "r"}, "-m FILE.gguf"}};
  for (const auto& [arguments, word] : cases) {
    const Outcome outcome = profile(arguments);
    EXPECT_EQ(outcome.code, 1) << word << outcome.err;
    ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
    EXPECT_NE(outcome.complaints()[0].find(word), std::string::npos) << outcome.err;
  }
  const Outcome several = profile({}, 2);
  EXPECT_EQ(several.code, 1);
  ASSERT_EQ(several.complaints().size(), 1u) << several.err;
  EXPECT_NE(several.complaints()[0].find("without mpirun"), std::string::npos);
}

}  // namespace
}  // namespace yamata::test
