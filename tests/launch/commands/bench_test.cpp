// yamata bench: lists of flags, statistics, formats, and small runs, also of several jobs under one mpirun.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "launch/commands/bench_report.hpp"
#include "launch/program/options/flag_values.hpp"
#include "node/error.hpp"
#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

namespace yamata::test {
namespace {

using Json = nlohmann::json;

Outcome bench(Arguments arguments, int ranks = 0) {
  arguments.insert(arguments.begin(), {"bench", "-m", kModel});
  return run(yamata(arguments, ranks));
}

TEST(CountList, NumbersAndRanges_areTakenInTheOrderWritten) {
  const auto counts = [](const std::string& text) { return parse_counts("-p", text, 0, 4096); };
  EXPECT_EQ(counts("512"), std::vector<int>{512});
  EXPECT_EQ(counts("512,0,1024"), (std::vector<int>{512, 0, 1024}));
  EXPECT_EQ(counts("1-4"), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(counts("7-7"), std::vector<int>{7});
  EXPECT_EQ(counts("1-10+4"), (std::vector<int>{1, 5, 9}));
  EXPECT_EQ(counts("8,128-1024*2"), (std::vector<int>{8, 128, 256, 512, 1024}));
  EXPECT_EQ(counts("3-20*3"), (std::vector<int>{3, 9}));
}

TEST(CountList, AnythingElse_isRefusedWithTheFlagNamed) {
  for (const char* text : {"", "x", "1,", ",1", "1-", "-1", "4-1", "1-4+", "1-4+0", "1-4*1", "0-4*2", "1-4+1+1", "1.5", "1 2",
                           "99999999999", "4097", "1-4097", "0-4096"}) {
    try {
      parse_counts("--widths", text, 0, 4096);
      ADD_FAILURE() << text;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find("--widths"), std::string::npos) << e.what();
    }
  }
}

TEST(BenchStatistics, MeanAndDeviation_areThoseOfASample) {
  EXPECT_DOUBLE_EQ(mean({2, 4, 9}), 5);
  EXPECT_DOUBLE_EQ(standard_deviation({2, 4, 9}), std::sqrt((9 + 1 + 16) / 2.0));
  EXPECT_DOUBLE_EQ(standard_deviation({3}), 0);
  EXPECT_DOUBLE_EQ(mean({}), 0);
  // A large mean must not hide a small deviation.
  EXPECT_NEAR(standard_deviation({1e9 + 1, 1e9 + 2, 1e9 + 3}), 1, 1e-6);
}

TEST(BenchTable, Ranks_areShownWithTheirUnits) {
  BenchRow row;
  row.test.generate = 8;
  row.type_k = row.type_v = "f16";
  row.samples_ns = {1000};
  row.per_rank = {{0, "n0", "0-7 60%", "avx2", "cpu:0-3=0.7+cuda:0=0.3", 4, 1.5, 0.25}, {1, "n1", "0-7 40%", "scalar", "cpu", 2, 2, 0}};
  const BenchOptions options;
  const auto printer = BenchPrinter::make("md", options);
  printer->row(row);
  const std::string table = printer->end();
  std::vector<std::vector<std::string>> cells;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.find("---") != std::string::npos) continue;
    std::istringstream words(line);
    for (cells.emplace_back(); words.good();) {
      std::string cell;
      std::getline(words, cell, '|');
      const auto from = cell.find_first_not_of(' ');
      if (from != std::string::npos) cells.back().push_back(cell.substr(from, cell.find_last_not_of(' ') + 1 - from));
    }
  }
  ASSERT_EQ(cells.size(), 3u) << table;
  for (const auto& line : cells) ASSERT_EQ(line.size(), 11u) << table;
  EXPECT_EQ(cells[0][7], "unit");
  EXPECT_EQ(cells[1][6], "0-7 60%");
  EXPECT_EQ(cells[1][7], "cpu:0-3=0.7+cuda:0=0.3");
  EXPECT_EQ(cells[2][7], "cpu");
  EXPECT_EQ(cells[2][10], "0.000");
}

TEST(BenchTest, Name_saysWhatIsRun) {
  EXPECT_EQ((BenchTest{512, 0, 0, 0}.name()), "pp512");
  EXPECT_EQ((BenchTest{0, 128, 0, 64}.name()), "tg128 @ d64");
  EXPECT_EQ((BenchTest{16, 8, 0, 0}.name()), "pp16+tg8");
  EXPECT_EQ((BenchTest{0, 0, 8, 0}.name()), "w8");
}

BenchRow example_row() {
  BenchRow row;
  row.model_filename = "it's, \"a\" model.gguf";
  row.test = {16, 0, 0, 0};
  row.n_threads = 3;
  row.no_repack = true;
  row.samples_ns = {1'000'000, 2'000'000};
  return row;
}

/// The fields of a line; quoted fields may contain commas and doubled quotes.
std::vector<std::string> split_fields(const std::string& line, char quote) {
  std::vector<std::string> fields(1);
  bool within = false;
  for (const char c : line) {
    if (c == quote) within = !within;
    if (c == ',' && !within)
      fields.emplace_back();
    else if (c != ' ' || within)
      fields.back() += c;
  }
  return fields;
}

TEST(BenchFormats, CsvAndSql_quoteWhatNeedsIt) {
  const BenchOptions options;
  const auto csv = BenchPrinter::make("csv", options);
  const std::string header = csv->begin(), line = csv->row(example_row());
  const auto names = split_fields(header.substr(0, header.size() - 1), '"'), values = split_fields(line.substr(0, line.size() - 1), '"');
  ASSERT_EQ(names.size(), values.size());
  const auto at = [&](const std::string& name) {
    return values.at(static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin()));
  };
  EXPECT_EQ(at("model_filename"), "\"it's, \"\"a\"\" model.gguf\"");
  EXPECT_EQ(at("n_prompt"), "16");
  EXPECT_EQ(at("avg_ns"), "1500000");
  EXPECT_EQ(std::stod(at("avg_ts")), 12000);
  EXPECT_EQ(at("samples_ns"), "\"[1000000,2000000]\"");

  const auto sql = BenchPrinter::make("sql", options);
  const std::string table = sql->begin(), insert = sql->row(example_row());
  EXPECT_EQ(table.rfind("CREATE TABLE IF NOT EXISTS yamata_bench (", 0), 0u);
  EXPECT_NE(table.find("avg_ts REAL"), std::string::npos);
  EXPECT_NE(insert.find("'it''s, \"a\" model.gguf'"), std::string::npos) << insert;
  const std::size_t cut = insert.find(") VALUES (");
  ASSERT_NE(cut, std::string::npos);
  EXPECT_EQ(split_fields(insert.substr(0, cut), '\'').size(), split_fields(insert.substr(cut + 10), '\'').size());
}

TEST(BenchFormats, Json_isOneListAndJsonLinesAreMany) {
  const BenchOptions options;
  for (const int rows : {0, 1, 3}) {
    const auto json = BenchPrinter::make("json", options), lines = BenchPrinter::make("jsonl", options);
    std::string text = json->begin(), many = lines->begin();
    for (int i = 0; i < rows; ++i) text += json->row(example_row()), many += lines->row(example_row());
    EXPECT_EQ(Json::parse(text + json->end()).size(), static_cast<std::size_t>(rows));
    EXPECT_EQ(std::count(many.begin(), many.end(), '\n'), rows);
    if (rows > 0) {
      EXPECT_EQ(Json::parse(many.substr(0, many.find('\n')))["avg_ts"], 12000);
    }
  }
}

TEST(Bench, Table_hasARowPerTestWithLlamaBenchsColumns) {
  const Outcome outcome = bench({"-p", "8,16", "-n", "4", "-pg", "8,2", "--widths", "1-2", "-d", "0,16", "-r", "2", "-oe", "jsonl"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 2 + 2 * 6) << outcome.out;
  for (const std::string word : {"| model", "size |", "params |", "| backend", "threads |", "type_k |", "type_v |", "test |", "ms/run |",
                                 "t/s |", "pp8 |", "pp16 |", "tg4 |", "pp8+tg2 |", "w2 |", "w2 @ d16 |", "CPU (", " ± "})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word << " in\n" << outcome.out;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 12) << outcome.err;
}

TEST(Bench, Json_holdsEveryFieldOfEveryJob) {
  const Outcome outcome =
      bench({"-p", "8", "-n", "2", "-r", "3", "-t", "1,2", "-b", "4", "-ctk", "f16,q8_0", "-ctv", "f32", "-o", "json", "--no-warmup"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json rows = Json::parse(outcome.out);
  ASSERT_EQ(rows.size(), 8u);
  std::set<std::string> jobs;
  for (const Json& row : rows) {
    for (const char* name :
         {"build_commit", "cpu_info", "backends", "model_filename", "model_type", "type_k", "type_v", "test", "test_time"})
      EXPECT_FALSE(row.at(name).get<std::string>().empty()) << name;
    for (const char* name : {"model_size", "model_n_params", "n_ranks", "n_batch", "n_threads", "avg_ns", "avg_ts"})
      EXPECT_GT(row.at(name).get<double>(), 0) << name;
    for (const char* name : {"n_prompt", "n_gen", "n_depth", "stddev_ns", "stddev_ts"}) EXPECT_GE(row.at(name).get<double>(), 0) << name;
    EXPECT_EQ(row["samples_ns"].size(), 3u);
    EXPECT_EQ(row["samples_ts"].size(), 3u);
    EXPECT_EQ(row["n_batch"], 4);
    EXPECT_EQ(row["type_v"], "f32");
    jobs.insert(row["n_threads"].dump() + row["type_k"].dump() + row["test"].dump());
    const double ns = row["samples_ns"][0].get<double>(), tokens = row["n_prompt"].get<double>() + row["n_gen"].get<double>();
    EXPECT_NEAR(row["samples_ts"][0].get<double>(), tokens * 1e9 / ns, 1e-6 * tokens * 1e9 / ns);
  }
  EXPECT_EQ(jobs.size(), 8u);
}

TEST(Bench, SeveralJobs_runUnderOneMpirun) {
  const Outcome outcome = bench({"-p", "8", "-n", "4", "-r", "2", "-t", "1,2", "-o", "json"}, 2);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json rows = Json::parse(outcome.out);
  ASSERT_EQ(rows.size(), 4u);
  for (const Json& row : rows) {
    EXPECT_EQ(row["n_ranks"], 2);
    ASSERT_EQ(row["per_rank"].size(), 2u);
    for (const Json& rank : row["per_rank"]) {
      EXPECT_FALSE(rank["host"].get<std::string>().empty());
      EXPECT_GT(rank["busy_ms_per_token"].get<double>(), 0);
      EXPECT_GE(rank["wait_ms_per_token"].get<double>(), 0);
    }
    EXPECT_EQ(row["per_rank"][0]["layers"].get<std::string>().substr(0, 2), "0-");
    EXPECT_NE(row["per_rank"][1]["layers"].get<std::string>().find("-7"), std::string::npos);
  }
  for (const int threads : {1, 2}) {
    const Json& row = rows[static_cast<std::size_t>(2 * threads - 1)];
    EXPECT_EQ(row["n_threads"], threads);
    for (const Json& rank : row["per_rank"]) EXPECT_EQ(rank["threads"], threads);
  }
}

TEST(Bench, SeveralModels_areOpenedByEveryRankInTurn) {
  const Outcome outcome =
      bench({"-m", test::source_path("/models/tales-draft-q8_0.gguf"), "-p", "8", "-n", "2", "-r", "1", "-o", "json"}, 2);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json rows = Json::parse(outcome.out);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[1]["model_size"], rows[0]["model_size"]);
  EXPECT_LT(rows[2]["model_size"].get<double>(), rows[1]["model_size"].get<double>());
}

TEST(Bench, JobThatFailsAfterAnother_endsEveryRankWithOneLine) {
  const TemporaryFolder folder;
  for (const int ranks : {0, 2}) {
    const Outcome outcome = bench({"-m", folder / "absent.gguf", "-p", "8", "-n", "0", "-r", "1"}, ranks);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
    EXPECT_NE(outcome.complaints()[0].find(folder / "absent.gguf"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.out.find("pp8 |"), std::string::npos) << outcome.out;
  }
}

TEST(Bench, ModelWithTooFewLayers_isNamedBeforeTheFirstMeasurement) {
  const Outcome outcome = bench({"-m", test::source_path("/models/tales-draft-q8_0.gguf"), "-p", "8", "-n", "0", "-r", "1", "-t", "1"}, 3);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
  EXPECT_NE(outcome.complaints()[0].find("tales-draft-q8_0.gguf: 3 ranks for a model of 2 layers"), std::string::npos) << outcome.err;
}

TEST(Bench, EndedEarly_leavesACompleteList) {
  const TemporaryFolder folder;
  const Outcome failed = bench({"-m", folder / "absent.gguf", "-p", "8", "-n", "0", "-r", "1", "-o", "json"});
  EXPECT_EQ(failed.code, 2) << failed.err;
  EXPECT_EQ(Json::parse(failed.out).size(), 1u) << failed.out;

  Process interrupted(yamata({"bench", "-m", kModel, "-p", "8", "-n", "0", "-r", "1", "-b", "8-1024", "-o", "json"}));
  ASSERT_TRUE(interrupted.wait_for_output(200)) << interrupted.err();  // the first row
  kill(interrupted.pid(), SIGINT);
  EXPECT_EQ(interrupted.wait(), 130);
  const std::string out = interrupted.out();
  EXPECT_GE(Json::parse(out).size(), 1u) << out;
}

TEST(Bench, NonsenseFlag_isNamed) {
  const std::vector<std::pair<Arguments, std::string>> cases{{{"-p", "1;2"}, "-p"},
                                                             {{"-n", "9-1"}, "-n"},
                                                             {{"-d", "-4"}, "-d"},
                                                             {{"-pg", "16"}, "-pg"},
                                                             {{"-pg", "16,0"}, "-pg"},
                                                             {{"--widths", "0"}, "--widths"},
                                                             {{"-r", "0"}, "-r"},
                                                             {{"-t", "1,many"}, "-t"},
                                                             {{"-b", "0"}, "-b"},
                                                             {{"-ctk", "f16,q2"}, "-ctk"},
                                                             {{"-o", "xml"}, "-o"},
                                                             {{"-oe", "yes"}, "-oe"},
                                                             {{"-p", "0", "-n", "0"}, "nothing to measure"}};
  for (const auto& [arguments, word] : cases) {
    const Outcome outcome = bench(arguments);
    EXPECT_EQ(outcome.code, 1) << word;
    EXPECT_EQ(outcome.out, "");
    ASSERT_EQ(outcome.complaints().size(), 1u) << outcome.err;
    EXPECT_NE(outcome.complaints()[0].find(word), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace yamata::test
