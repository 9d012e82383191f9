#include "launch/program/options/prompt_list.hpp"

#include <gtest/gtest.h>

#include "node/error.hpp"

namespace yamata::test {
namespace {

TEST(PromptList, EachLine_hasItsPrompt_underAnyOfThreeNames) {
  const std::string text =
      "{\"prompt\": \"one\", \"turns\": [\"not this\"]}\n\n  \r\n{\"text\": \"two\"}\r\n{\"question_id\": 3, \"turns\": [\"three\", "
      "\"later\"]}";
  EXPECT_EQ(read_prompt_list(text, "list.jsonl"), (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_TRUE(read_prompt_list("\n", "list.jsonl").empty());
}

TEST(PromptList, Datasets_haveNamesOfTheirOwn) {
  const std::string text =
      "{\"question\": \"one\", \"answer\": \"1\"}\n{\"instruction\": \"two\", \"input\": \"2\", \"output\": \"x\"}\n"
      "{\"instruction\": \"three\", \"input\": \"\"}\n{\"question\": \"not this\", \"turns\": [\"four\"]}";
  EXPECT_EQ(read_prompt_list(text, "list.jsonl"), (std::vector<std::string>{"one", "two\n2", "three", "four"}));
  EXPECT_TRUE(looks_like_prompt_list(text));
}

TEST(PromptList, Categories_leaveOutOtherLines) {
  const std::string text =
      "{\"text\": \"one\", \"category\": \"math\"}\n{\"text\": \"two\"}\n{\"text\": \"three\", \"category\": \"code\"}\n"
      "{\"text\": \"four\", \"category\": \"math\"}";
  EXPECT_EQ(read_prompt_list(text, "list.jsonl", {"math"}), (std::vector<std::string>{"one", "four"}));
  EXPECT_EQ(read_prompt_list(text, "list.jsonl", {"code", "math"}), (std::vector<std::string>{"one", "three", "four"}));
  const auto refusal = [](const std::string& jsonl) {
    try {
      read_prompt_list(jsonl, "list.jsonl", {"math", "prose"});
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(text), "--categories: list.jsonl has no category 'prose'; there are code, math");
  EXPECT_EQ(refusal("{\"text\": \"one\"}"), "--categories: list.jsonl has no categories; leave it out");
}

TEST(PromptList, ALineWithoutAText_isNamed) {
  for (const char* bad : {"{\"prompt\": 5}", "[\"a\"]", "{\"turns\": []}", "{\"turns\": [1]}", "no JSON", "{\"prompts\": \"a\"}"}) {
    try {
      read_prompt_list(std::string("{\"text\": \"fine\"}\n\n") + bad, "list.jsonl");
      ADD_FAILURE() << bad;
    } catch (const ModelError& e) {
      EXPECT_NE(std::string(e.what()).find("list.jsonl: line 3"), std::string::npos) << e.what();
    }
  }
}

TEST(PromptList, ALineThatIsNotJson_isSaidToBe) {
  for (const auto& [bad, words] : {std::pair{"no JSON", "line 1 is not JSON"}, {"{\"prompts\": \"a\"}", "line 1 has no text"}}) {
    try {
      read_prompt_list(bad, "list.jsonl");
      ADD_FAILURE() << bad;
    } catch (const ModelError& e) {
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
  }
}

TEST(PromptList, ALineThatIsNotUtf8_isSaidToBe) {
  const auto refusal = [](const std::string& line) {
    try {
      read_prompt_list("{\"text\": \"fine\"}\n" + line, "list.jsonl");
    } catch (const ModelError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal("{\"text\": \"caf\xE9 noir\"}").find("list.jsonl: line 2 is not UTF-8 from byte 13 on (iconv"), std::string::npos);
  EXPECT_NE(refusal("{\"text\": \"caf\xC3").find("list.jsonl: line 2 ends within a UTF-8 character, which begins at byte 13"),
            std::string::npos);
  EXPECT_EQ(refusal("{\"text\": \"caf\xC3\xA9\"}"), "");
}

TEST(PromptList, Format_takesThePromptUnchanged) {
  EXPECT_EQ(formatted_prompt("<user>\\n{}<end>\\n", "a {} and \\n"), "<user>\na {} and \\n<end>\n");
  EXPECT_EQ(formatted_prompt("{}", "as it is"), "as it is");
}

}  // namespace
}  // namespace yamata::test
