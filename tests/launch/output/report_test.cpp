// The final line of a run.
#include "launch/program/output/report.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

namespace yamata {
namespace {

Generation generation(std::size_t tokens) {
  Generation r;
  r.strategy = "iterative";
  r.prompt_ids.resize(3);
  r.prefill_s = tokens > 0 ? 0.1 : 0;
  r.first_token_s = tokens > 0 ? 0.15 : 0;
  r.token_ids.resize(tokens);
  for (std::size_t i = 0; i < tokens; ++i) r.token_times_s.push_back(0.25 * static_cast<double>(i));
  r.per_rank.resize(1);
  return r;
}

TEST(Report, InterruptedPrompt_hasNoFigures) {
  Generation r = generation(0);
  r.finish = FinishReason::kInterrupted;
  EXPECT_EQ(to_table(r), "\ninterrupted before the first token\n");
  r.prefill_s = 0;
  const auto figures = nlohmann::json::parse(to_json(r));
  for (const char* key : {"prefill_tokens_per_s", "decode_tokens_per_s", "prompt_s", "first_token_s", "ttft_s", "itl_mean_s", "itl_p50_s",
                          "itl_p99_s", "acceptance_rate", "first_choice_rate", "tokens_per_target_run", "head_us_per_token"})
    EXPECT_TRUE(figures.at(key).is_null()) << key << ": " << figures.at(key);
  EXPECT_EQ(figures.at("generated_tokens"), 0);
  EXPECT_NE(to_csv(r).find("\niterative,true,interrupted,1,3,0,,,,,,,,,0,0,,,"), std::string::npos) << to_csv(r);
  Generation some = generation(3);
  some.finish = FinishReason::kInterrupted;
  EXPECT_NE(to_table(some).find("(iterative), interrupted, first after 150.0 ms, second 250.0 ms later\n"), std::string::npos)
      << to_table(some);
}

TEST(Report, Overhead_isOfDraftersAndOfRank0) {
  Generation r = generation(3);
  r.counters.candidates_s = 0.25, r.counters.buffers_s = 0.125, r.counters.posterior_s = 0.0625;
  r.per_rank[0].candidates_s = 0.5;
  const auto figures = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(figures.at("candidates_s"), 0.75);
  EXPECT_EQ(figures.at("buffers_s"), 0.125);
  EXPECT_EQ(figures.at("posterior_s"), 0.0625);
  const std::string sums = "\nbetween runs (share of verify): candidates 0.750 s{}, buffers 0.125 s{}, posterior 0.062 s{}, sampling ";
  EXPECT_NE(to_table(r).find(fmt::format(fmt::runtime(sums), "", "", "")), std::string::npos) << to_table(r);
  r.per_rank[0].busy_s = 12.5;
  EXPECT_NE(to_table(r).find(fmt::format(fmt::runtime(sums), " (6.00 %)", " (1.00 %)", " (0.50 %)")), std::string::npos) << to_table(r);
}

TEST(Report, Sequences_areCountedByStep) {
  Generation r = generation(3);
  auto figures = nlohmann::json::parse(to_json(r));
  EXPECT_TRUE(figures.at("sequences_per_step").is_null());
  EXPECT_TRUE(figures.at("steps_by_sequences").is_null());
  r.counters.sequences = {2, 0, 1, 1};
  figures = nlohmann::json::parse(to_json(r));
  EXPECT_EQ(figures.at("sequences_per_step"), 2.25);
  EXPECT_EQ(figures.at("steps_by_sequences"), nlohmann::json({2, 0, 1, 1}));
}

TEST(Report, Rates_areThereWhereTimeHasPassed) {
  Generation drafted = generation(3);
  drafted.choices = {{}, {{.draft_probability = 0.5f, .token = 7}}, {}};
  EXPECT_EQ(nlohmann::json::parse(to_json(drafted))["first_choice_rate"], 0) << "no first choice was right";
  EXPECT_EQ(to_table(generation(1)).find("\n3 tokens of prompt at 30.0 tokens/s, 1 generated (iterative), first after 150.0 ms\n"), 0u);
  EXPECT_EQ(to_table(generation(3))
                .find("\n3 tokens of prompt at 30.0 tokens/s, 3 generated at 4.0 tokens/s (iterative), first after 150.0 ms, second 250.0 "
                      "ms later\n"),
            0u);
}

TEST(Report, ChosenLayout_isSaidInTheTableAndInTheJson) {
  Generation r = generation(2);
  EXPECT_EQ(to_table(r).find("\nlayout: "), std::string::npos);
  EXPECT_FALSE(nlohmann::json::parse(to_json(r)).contains("layout_choice"));
  r.layout_choice = "n0 alone, iterative";
  r.plan_json = R"({"layouts": []})";
  EXPECT_NE(to_table(r).find("\nlayout: n0 alone, iterative\n"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(to_json(r))["layout_choice"], "n0 alone, iterative");
  EXPECT_TRUE(nlohmann::json::parse(to_json(r))["plan"].contains("layouts"));
}

TEST(Report, EveryKeyOfTheJson_isInTheTableOfTheManual) {
  Generation r = generation(2);
  r.layout_choice = "n0 alone, iterative", r.plan_json = "{}";
  r.choices.resize(2);
  r.with_checksum = true;
  r.per_rank[0].draft_run_s = {0.1};
  std::string rows;  // of the keys, without the text about them
  const std::string manual = test::read_file(test::source_path("/docs/json.md"));
  for (std::size_t at = manual.find("| key of the JSON"); manual[at] == '|'; at = manual.find('\n', at) + 1)
    rows += manual.substr(at, manual.find(" | ", at) - at);
  const auto json = nlohmann::json::parse(to_json(r));
  for (const auto& keys : {json, json.at("per_rank").at(0)}) {
    for (const auto& [key, value] : keys.items()) EXPECT_NE(rows.find("`" + key + "`"), std::string::npos) << key;
  }
}

TEST(Report, Units_areNamedBelowTheTable) {
  Generation r = generation(2);
  r.per_rank[0].host = "n0", r.per_rank[0].layers = {0, 8}, r.per_rank[0].isa = "avx2", r.per_rank[0].device = "cpu:0=0.5+cpu:1=0.5";
  const std::string table = to_table(r), row = table.substr(table.find("n0"), table.find('\n', table.find("n0")) - table.find("n0"));
  EXPECT_NE(row.find(" - "), std::string::npos) << row;
  EXPECT_EQ(row.find("below"), std::string::npos) << row;
  EXPECT_NE(table.find("\nrank 0 computed on cpu:0=0.5+cpu:1=0.5 (avx2)\n"), std::string::npos) << table;
}

TEST(Report, Memory_isSaidWhatItCounts) { EXPECT_NE(to_table(generation(2)).find("\nown MiB: "), std::string::npos); }

}  // namespace
}  // namespace yamata
