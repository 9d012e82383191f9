// yamata plan: layouts of machines that are described by flags and files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "launch/commands/model_timer.hpp"
#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

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
  const Outcome outcome = plan({"--ranks", "3", "-md", test::source_path("/models/tales-draft-q8_0.gguf"), "--rows", "4", "--json", json});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json j = Json::parse(read_file(json));
  ASSERT_EQ(j["hosts"].size(), 3u);
  ASSERT_EQ(j["layouts"].size(), 4u);
  const Json& best = j["layouts"][0];
  EXPECT_GE(best["decode_tokens_per_s"].get<double>(), j["layouts"][1]["decode_tokens_per_s"].get<double>());
  EXPECT_TRUE(best["fits"].get<bool>());
  for (const std::string word : {"  layers  ", "tokens/s", "TTFT s", "max MiB", "why", "yamata run"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word;
  EXPECT_NE(outcome.out.find(best["hosts"].get<std::string>()), std::string::npos);
  EXPECT_NE(outcome.out.find("--strategy " + best["strategy"].get<std::string>()), std::string::npos);
}

TEST(Plan, ForSeveralTexts_saysTheSpeedOfAllAndOfEach_andStartsAnEngine) {
  const TemporaryFolder folder;
  const std::string json = folder / "plan.json";
  const Outcome outcome = plan({"--ranks", "1", "--requests", "4", "-c", "128", "--json", json});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json j = Json::parse(read_file(json));
  EXPECT_EQ(j["text"]["requests"], 4);
  const double all = j["layouts"][0]["decode_tokens_per_s"];
  EXPECT_TRUE(std::regex_search(outcome.out, std::regex("tokens/s +of each +TTFT s"))) << outcome.out;
  EXPECT_NE(outcome.out.find(fmt::format(" {:.2f} {:>9.2f} ", all, all / 4)), std::string::npos) << outcome.out;
  const std::size_t begin = outcome.out.rfind('\n', outcome.out.find(" engine ")) + 1, end = outcome.out.find("  # on", begin);
  const std::string line = outcome.out.substr(begin, end - begin);
  EXPECT_EQ(line, kProgram + " engine -m " + kModel + " --strategy speculative -t 1 -c 128 --slots 4");
  const Outcome started = run({"sh", "-c", line + " < /dev/null"});
  EXPECT_EQ(started.code, 0) << started.err;
  EXPECT_NE(started.out.find("joined"), std::string::npos) << started.out;
}

TEST(Plan, Table_saysWhichLayersEachStageHolds) {
  const Outcome outcome = plan({"--ranks", "2", "--rows", "20", "--latency", "0.1"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* row : {"\nhost0 +0-7 +", "\nhost0\\+host1 +0-7 +", "\nhost0,host1 +0-[0-6],[1-7]-7 +"})
    EXPECT_TRUE(std::regex_search(outcome.out, std::regex(row))) << row << " in\n" << outcome.out;
}

TEST(Plan, WithoutADraft_theTextGuessesAsRunHasIt) {
  const TemporaryFolder folder;
  const Outcome outcome = plan({"--ranks", "2", "--rows", "20", "--json", folder / "plan.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json plan = Json::parse(read_file(folder / "plan.json"));
  ASSERT_GE(plan["layouts"].size(), 3u);
  for (const Json& layout : plan["layouts"])
    EXPECT_EQ(layout["strategy"], layout["hosts"] == "host0,host1" ? "pipeinfer" : "speculative") << layout["hosts"];
}

/// A profile of kModel; its machine has another name than its file.
void write_profile(const TemporaryFolder& folder, const std::string& host, double time_s, double more_bytes = 0) {
  static const double bytes = weight_bytes(ModelFile::open(kModel));
  write_file(folder / (host + ".json"), Json{{"machine", {{"host", host + ".example.org"}, {"available_bytes", 1e9}}},
                                             {"model", {{"weight_bytes", bytes + more_bytes}, {"threads", 4}}},
                                             {"widths", {{{"width", 1}, {"time_s", time_s}}, {{"width", 4}, {"time_s", 1.3 * time_s}}}}}
                                            .dump());
}

TEST(Plan, ProfilesAndHostfile_sayWhoTheMachinesAre) {
  const TemporaryFolder folder;
  write_profile(folder, "oak", 1.0);
  write_profile(folder, "ash", 0.5);
  const auto hosts = [&](Arguments arguments) {
    arguments.insert(arguments.end(), {"--profiles", folder / "", "--latency", "0.01", "--json", folder / "out.js"});
    const Outcome outcome = plan(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(read_file(folder / "out.js"))["hosts"];
  };
  const Json all = hosts({});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["name"], "ash");
  const double oak_ns = 1e9 / weight_bytes(ModelFile::open(kModel));
  EXPECT_DOUBLE_EQ(all[0]["ns_per_byte"], 0.5 * oak_ns);
  EXPECT_DOUBLE_EQ(all[1]["ns_per_byte"], oak_ns);
  EXPECT_EQ(all[1]["threads"], 4);
  write_file(folder / "hosts", "# ours\n\noak slots=1\nash\n");
  const Json named = hosts({"--hostfile", folder / "hosts", "--slow", "1=3"});
  EXPECT_EQ(named[0]["name"], "oak");
  EXPECT_DOUBLE_EQ(named[1]["ns_per_byte"], 1.5 * oak_ns);
  EXPECT_EQ(plan({"--profiles", folder / "", "--json", folder / "oak.json"}).code, 1) << "it would be overwritten";
}

TEST(Plan, DamagedProfile_isNamedWithItsKey) {
  const TemporaryFolder folder;
  const std::string file = folder / "ash.json";
  write_profile(folder, "ash", 1.0);
  const Json good = Json::parse(read_file(file));
  const std::vector<std::pair<const char*, Json>> damages{
      {"/widths/1/width", -5.5},       {"/widths/1/width", -1},  {"/widths/1/width", 3000000000}, {"/widths/0/width", -5},
      {"/widths/1/width", 0},          {"/widths/1/width", 0.5}, {"/widths/1/width", 16.5},       {"/widths/1/width", 99999},
      {"/widths/1/time_s", -1},        {"/widths/1/time_s", 0},  {"/model/threads", 0},           {"/model/weight_bytes", 0},
      {"/machine/available_bytes", -1}};
  for (const auto& [where, value] : damages) {
    Json profile = good;
    profile[Json::json_pointer(where)] = value;
    write_file(file, profile.dump());
    std::string key = std::string(where).substr(1);
    if (key.starts_with("widths/")) key = "widths[" + key.substr(7, 1) + "]" + key.substr(8);
    std::ranges::replace(key, '/', '.');
    const Outcome outcome = plan({"--profiles", folder / ""});
    EXPECT_EQ(outcome.code, 2) << where << value;
    ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
    EXPECT_TRUE(outcome.complaints()[0].starts_with("yamata: " + file + ": '" + key + "' is ")) << outcome.err;
  }
  Json twice = good;
  twice["widths"][1]["width"] = 1;
  write_file(file, twice.dump());
  EXPECT_NE(plan({"--profiles", folder / ""}).err.find("'widths' has one width twice"), std::string::npos);
}

TEST(Plan, ProfilesThatAreNotUsed_areNamed) {
  const TemporaryFolder folder;
  for (const char* host : {"ash", "elm", "oak"}) write_profile(folder, host, 1.0);
  write_file(folder / "hosts", "oak\n");
  const Outcome some = plan({"--hostfile", folder / "hosts", "--profiles", folder / ""});
  EXPECT_EQ(some.code, 0) << some.err;
  ASSERT_EQ(some.warnings().size(), 1u) << some.err;
  EXPECT_NE(some.warnings()[0].find("ash.json, elm.json are not used, as --hostfile"), std::string::npos) << some.err;
  EXPECT_NE(some.warnings()[0].find("HOST.json"), std::string::npos) << some.err;
  EXPECT_EQ(plan({"--profiles", folder / ""}).warnings().size(), 0u);
}

TEST(Plan, LastLine_startsTheJobThatWasPlanned) {
  const TemporaryFolder folder;
  const auto last_line = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const std::size_t end = outcome.out.find_last_not_of('\n');
    return outcome.out.substr(outcome.out.rfind('\n', end) + 1, end - outcome.out.rfind('\n', end));
  };
  const std::string spaced = folder / "my yamata";
  std::filesystem::create_symlink(kProgram, spaced);
  const std::string line =
      last_line(run({spaced, "plan", "-m",           kModel, "--ranks",         "1", "-t", "1", "-c", "200", "-ctk", "q8_0", "-n", "20",
                     "-b",   "32",   "--acceptance", "0.5",  "--prompt-tokens", "10"}));
  EXPECT_EQ(line, "'" + spaced + "' run -m " + kModel + " --strategy speculative -t 1 -c 200 -ctk q8_0 -n 20 -b 32 -p TEXT  # on host0");
  const Outcome started = run({"sh", "-c", line});
  EXPECT_EQ(started.code, 0) << started.err;
  EXPECT_NE(started.err.find("generated"), std::string::npos) << started.err;
  write_profile(folder, "oak", 1.0);
  const std::string bare = last_line(run(yamata({"plan", "-m", kModel, "--profiles", folder / "", "-t", "1"})));
  EXPECT_EQ(bare, kProgram + " run -m " + kModel + " --strategy speculative -p TEXT  # on oak");
}

/// Speed of the layout with these hosts and without a draft.
double tokens_per_s(const Json& plan, const std::string& hosts) {
  for (const Json& layout : plan["layouts"])
    if (layout["hosts"] == hosts) return layout["decode_tokens_per_s"];
  throw std::logic_error("no such layout");
}

TEST(Plan, BenchmarkedGroups_countInPlansAndSimulationsOfThem) {
  const TemporaryFolder folder, machines;
  write_profile(machines, "ash", 1.0);
  write_profile(machines, "oak", 1.0);
  const std::string plain = folder / "plain.json", measured = folder / "measured.json", simulated = folder / "s.json";
  const Outcome as_numbers_say = plan({"--profiles", machines / "", "--rows", "50", "--json", plain});
  ASSERT_EQ(as_numbers_say.code, 0) << as_numbers_say.err;
  EXPECT_NE(as_numbers_say.out.find("no group was benchmarked"), std::string::npos) << as_numbers_say.out;
  Json j = Json::parse(read_file(plain));
  EXPECT_TRUE(j["group_benchmarks"].empty());
  const double before = tokens_per_s(j, "ash+oak");

  j["group_benchmarks"] = {{{"members", 2}, {"computing", 1.25}, {"exchange_ms", 2.0}}};
  write_file(plain, Json{{"plan", j}, {"text", "of a run"}}.dump());
  const Outcome outcome = plan({"--from", plain, "--rows", "50", "--json", measured});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("groups of 2 compute 1.25 times as long as their speeds predict, and an exchange takes 2.000 ms"),
            std::string::npos)
      << outcome.out;
  j = Json::parse(read_file(measured));
  EXPECT_EQ(j["group_benchmarks"][0]["computing"], 1.25);
  const double planned = tokens_per_s(j, "ash+oak");
  EXPECT_LT(planned, 0.9 * before);

  const auto simulate = [&](Arguments more) {
    more.insert(more.begin(),
                {"simulate", "--from", measured, "--ranks", "2", "--group", "2", "--strategy", "iterative", "--json", simulated});
    const Outcome outcome = run(yamata(more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(read_file(simulated))["results"][0]["decode_tokens_per_s"].get<double>();
  };
  const double same = simulate({}), farther = simulate({"--latency", "1.1"}), thinner = simulate({"--bandwidth", "1"});
  EXPECT_NEAR(same, planned, 0.01 * planned);
  const double layers = j["model"]["layers"], bytes = j["model"]["exchange_bytes"];
  const double latency_s = 4e-3 * layers, slices_s = layers * bytes / 2 * (1 / 125e3 - 1 / 125e6);
  EXPECT_NEAR(1 / farther - 1 / same, latency_s, 0.15 * latency_s) << "each exchange, and little else, waits 1 ms more";
  EXPECT_NEAR(1 / thinner - 1 / same, slices_s, 0.25 * slices_s);
}

TEST(Plan, MachinesTooFarApartForABenchmark_areSaidToBe) {
  const TemporaryFolder folder, machines;
  write_profile(machines, "ash", 1.0);
  write_profile(machines, "oak", 1.0);
  const std::string run_json = folder / "far.json";
  ASSERT_EQ(plan({"--profiles", machines / "", "--json", run_json}).code, 0);
  Json j = Json::parse(read_file(run_json));
  j["hosts"][1].update({{"latency_ms", 25.0}, {"wake_up_ms", 0.05}, {"mbit_per_s", 100.0}});
  write_file(run_json, Json{{"plan", j}}.dump());
  const Outcome far = plan({"--from", run_json});
  ASSERT_EQ(far.code, 0) << far.err;
  EXPECT_NE(far.out.find("no group was benchmarked, because messages between the fastest machines take more than 2 ms"), std::string::npos)
      << far.out;
  EXPECT_EQ(far.out.find("--from"), std::string::npos) << far.out;
}

TEST(Plan, WhatMakesNoSense_isRefused) {
  const TemporaryFolder folder;
  write_file(folder / "empty", "# nobody\n");
  write_file(folder / "bad.json", "{}");
  const auto refused = [](const Arguments& arguments, const std::string& word) {
    const Outcome outcome = plan(arguments);
    EXPECT_EQ(outcome.code, arguments.size() == 2 && word.starts_with(' ') ? 2 : 1) << word;
    EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  refused({"--ranks", "0"}, "--ranks");
  refused({"--ranks", "2", "--slow", "2=2"}, "--slow");
  refused({"--requests", "0"}, "--requests");
  refused({"--requests", "65"}, "--requests");
  // a bad file is exit code 2
  refused({"--hostfile", folder / "empty"}, " names no host");
  refused({"--hostfile", folder / "absent"}, " No such file");
  write_file(folder / "prose", "# hosts\nash\nThis is no list of hosts.\n");
  refused({"--hostfile", folder / "prose"}, " line 3 is no host");
  write_file(folder / "prose", "ash:2\n[oak](elm)\n");
  refused({"--hostfile", folder / "prose"}, " line 2 is no host");
  write_file(folder / "none", "ash slots=2 max_slots=4  # ours\noak slots = 0\n");
  refused({"--hostfile", folder / "none"}, " line 2 has no slot");
  refused({"--hostfile", folder / "empty", "--ranks", "2"}, "leave it out");
  refused({"--profiles", folder / ""}, " is no profile");
  refused({"--profiles", folder / "absent"}, " No such file or directory; name a folder");
  const TemporaryFolder others;
  write_profile(others, "ash", 1, 1000);
  refused({"--profiles", others / ""}, " is of another model");
  refused({"--acceptance", ".9", "--acceptance4", ".8"}, "--acceptance4");
  refused({"-c", "1000000000"}, "fits");
  refused({"--from", folder / "absent"}, " No such file");
  refused({"--from", folder / "bad.json"}, " has no plan");
  refused({"--from", test::source_path("/README.md")}, " is not JSON");
  refused({"--from", folder / "bad.json", "--latency", "1"}, "--latency");
  refused({"--from", folder / "bad.json", "--ranks", "2"}, "--ranks");
  const std::string other = folder / "other.json";
  ASSERT_EQ(plan({"-m", test::source_path("/models/tales-draft-q8_0.gguf"), "--ranks", "1", "--json", other}).code, 0);
  refused({"--from", other}, " another model");
}

TEST(Plan, TextThatRunWouldNotFinish_isRefused) {
  const auto refused = [](const Arguments& arguments, const std::string& words) {
    const Outcome outcome = plan(arguments);
    EXPECT_EQ(outcome.code, 1) << words;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  refused({"-c", "100", "--prompt-tokens", "500"}, "the prompt has 500 tokens, the context holds 100; raise -c or lower --prompt-tokens");
  refused({"--prompt-tokens", "1025"}, "the context holds 1024, and the model was trained for no longer text; lower --prompt-tokens");
  refused({"-c", "100", "-n", "38"}, "the context of 100 tokens is full after 37 tokens of -n 38; raise -c or lower -n");
  refused({"-n", "50000"}, "the context of 1024 tokens is full after 961 tokens of -n 50000, and the model was trained for no longer text");
  refused({"-n", "1"}, "a text of one token has no time between tokens");
  const Outcome fits = plan({"--ranks", "1", "-c", "100", "-n", "37"});
  EXPECT_EQ(fits.code, 0) << fits.err;
  EXPECT_EQ(fits.warnings().size(), 0u) << fits.err;
  const Outcome beyond = plan({"--ranks", "1", "-c", "1025", "--acceptance", ".5"});
  EXPECT_EQ(beyond.code, 0) << beyond.err;
  ASSERT_EQ(beyond.warnings().size(), 2u) << beyond.err;
  EXPECT_NE(beyond.warnings()[0].find("--acceptance does nothing"), std::string::npos) << beyond.err;
  EXPECT_NE(beyond.warnings()[1].find("a context of 1025 tokens"), std::string::npos) << beyond.err;
}

TEST(Plan, OfALongText_isMadeButNotSimulatedWhole) {
  const TemporaryFolder folder;
  const std::string json = folder / "plan.json";
  ASSERT_EQ(plan({"--ranks", "1", "-c", "20000", "--prompt-tokens", "10001", "--json", json}).code, 0);
  const Outcome whole = run(yamata({"simulate", "--from", json}));
  EXPECT_EQ(whole.code, 1);
  EXPECT_NE(whole.err.find("of 10001 + 16 tokens would take long to simulate; give --prompt-tokens"), std::string::npos) << whole.err;
  const Outcome shorter = run(yamata({"simulate", "--from", json, "--prompt-tokens", "100"}));
  EXPECT_EQ(shorter.code, 0) << shorter.err;
}

TEST(Plan, UnderMpirun_isRefused) {
  const Outcome outcome = plan({}, 2);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("without mpirun"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace yamata::test
