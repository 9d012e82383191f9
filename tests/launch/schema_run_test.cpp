// yamata run --json-schema.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/launch/process.hpp"

namespace yamata::test {
namespace {

const std::string kSchema = R"({"type":"object","properties":{"title":{"type":"string","maxLength":20},"kind":{"enum":["tale","poem"]},
  "scores":{"type":"array","minItems":2,"maxItems":2,"items":{"type":"integer","minimum":1,"maximum":5}},"done":{"type":"boolean"}},
  "required":["title","kind","scores","done"],"additionalProperties":false})";

class SchemaRun : public testing::Test {
 protected:
  SchemaRun() { write_file(file("schema.json"), kSchema); }
  std::string file(const std::string& name) const { return folder_ / name; }

  Outcome run_with(int ranks, const Arguments& more) {
    Arguments arguments{
        "run",    "-m",          kModel, "-p", kPrompt, "-n", "100", "-c", "256", "-t", "1", "--json-schema", file("schema.json"),
        "--json", file("r.json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(yamata(arguments, ranks));
  }
  nlohmann::json result_of(int ranks, const Arguments& more) {
    const Outcome outcome = run_with(ranks, more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(read_file(file("r.json")));
  }

 private:
  const TemporaryFolder folder_;
};

TEST_F(SchemaRun, text_isValidAndTheSameWhateverGuesses) {
  for (const Arguments& sampling : {Arguments{}, Arguments{"--temp", "1.2", "-s", "3"}}) {
    nlohmann::json alone;
    const std::vector<std::pair<int, Arguments>> jobs{
        {0, {"--strategy", "iterative"}}, {0, {}}, {0, {"-md", kDraft}}, {3, {"-md", kDraft}}, {2, {"--layer-split", "0.5+0.5"}}};
    for (const auto& [ranks, flags] : jobs) {
      Arguments arguments = sampling;
      arguments.insert(arguments.end(), flags.begin(), flags.end());
      const nlohmann::json result = result_of(ranks, arguments);
      if (alone.is_null()) alone = result;
      EXPECT_EQ(result["token_ids"], alone["token_ids"]) << ranks << " ranks";
      const auto value = nlohmann::json::parse(result["text"].get<std::string>());
      EXPECT_EQ(value["scores"].size(), 2u) << value;
      EXPECT_TRUE(value["kind"] == "tale" || value["kind"] == "poem") << value;
    }
  }
}

TEST_F(SchemaRun, whatIsCertain_isGuessed) {
  EXPECT_GT(result_of(0, {"--strategy", "speculative", "--policy", "dynamic-tree"})["accepted"].get<int>(), 10);
}

TEST_F(SchemaRun, freeText_mayComeFirst) {
  const Outcome outcome = run_with(0, {"--schema-after", "."});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::size_t begin = outcome.out.find(".{");
  EXPECT_TRUE(begin != std::string::npos || outcome.out.find(". {") != std::string::npos || outcome.out.find(".\n") != std::string::npos)
      << outcome.out;
}

TEST_F(SchemaRun, schemasThatCannotBeUsed_areRefusedInALine) {
  write_file(file("not.json"), R"({"not":{}})");
  const auto complaint = [&](const Arguments& more) {
    Arguments arguments{"run", "-m", kModel, "-p", kPrompt};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(yamata(arguments));
    EXPECT_EQ(outcome.complaints().size(), 1u) << outcome.err;
    EXPECT_NE(outcome.code, 0);
    return outcome.err;
  };
  EXPECT_NE(complaint({"--json-schema", file("not.json")}).find("'not' is not supported (at # of the schema)"), std::string::npos);
  EXPECT_NE(complaint({"--json-schema", file("none.json")}).find("cannot read"), std::string::npos);
  EXPECT_NE(complaint({"--json-schema", file("schema.json"), "--ignore-eos"}).find("--ignore-eos"), std::string::npos);
  EXPECT_NE(complaint({"--schema-after", "x"}).find("--json-schema"), std::string::npos);
}

}  // namespace
}  // namespace yamata::test
