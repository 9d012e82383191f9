// The engine's protocol, answered by a job in this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "tests/launch/serving/served_job.hpp"

namespace yamata::test {
namespace {

constexpr const char* kTale = "Once upon a time there was";

struct Layout {
  int ranks;
  Strategy strategy;
};
class ServingTest : public testing::TestWithParam<Layout> {
 protected:
  ServedJob job_{GetParam().ranks, GetParam().strategy};
};

TEST_P(ServingTest, Text_comesWithItsTokens) {
  const Answer answer = job_.ask({{"prompt", kTale}, {"max_tokens", 12}});
  EXPECT_EQ(answer.end["reason"], "length");
  EXPECT_EQ(answer.ids.size(), 12u);
  StreamDecoder decoder(job_.tokenizer());
  std::string text;
  for (const std::int32_t id : answer.ids) text += decoder.push(id);
  EXPECT_EQ(answer.text, text + decoder.finish());
  EXPECT_EQ(answer.end["usage"]["completion_tokens"], 12);
  EXPECT_EQ(answer.end["usage"]["prompt_tokens"], prompt_ids(job_.tokenizer(), kTale).size());
  const Answer from_ids = job_.ask({{"prompt", prompt_ids(job_.tokenizer(), kTale)}, {"max_tokens", 12}});
  EXPECT_EQ(from_ids.ids, answer.ids);
}

TEST_P(ServingTest, StopAcrossTokens_endsTheText) {
  const Answer whole = job_.ask({{"prompt", kTale}, {"max_tokens", 24}});
  ASSERT_GT(whole.text.size(), 20u);
  const std::string stop = whole.text.substr(9, 7);
  const std::string wanted = whole.text.substr(0, whole.text.find(stop));
  const Answer stopped = job_.ask({{"prompt", kTale}, {"max_tokens", 24}, {"stop", {stop, "zzzz"}}});
  EXPECT_EQ(stopped.text, wanted);
  EXPECT_EQ(stopped.end["reason"], "stop");
  EXPECT_LT(stopped.ids.size(), whole.ids.size());
  const Answer half = job_.ask({{"prompt", kTale}, {"max_tokens", 24}, {"stop", {whole.text.substr(whole.text.size() - 4) + "\u0001"}}});
  EXPECT_EQ(half.text, whole.text) << "what only begins a stop string is delivered";
}

TEST_P(ServingTest, KeptTokens_continueTheSameText) {
  Json request{{"prompt", kTale}, {"max_tokens", 20}, {"stop", {"zzzz"}}, {"sampling", {{"temperature", 1.5}, {"seed", 11}}}};
  request["sampling"]["presence_penalty"] = 0.5;
  const Answer whole = job_.ask(request);
  for (const std::size_t kept : {1u, 7u, 19u}) {
    request["kept"] =
        std::vector<std::int32_t>(whole.ids.begin(), whole.ids.begin() + static_cast<std::ptrdiff_t>(std::min(kept, whole.ids.size())));
    const Answer rest = job_.ask(request);
    EXPECT_TRUE(std::equal(rest.ids.rbegin(), rest.ids.rend(), whole.ids.rbegin())) << kept;
    EXPECT_EQ(rest.ids.size() + kept, whole.ids.size());
    EXPECT_TRUE(whole.text.ends_with(rest.text));
    EXPECT_EQ(rest.end["usage"]["completion_tokens"], whole.end["usage"]["completion_tokens"]);
    EXPECT_EQ(rest.end["usage"]["prompt_tokens"], whole.end["usage"]["prompt_tokens"]);
  }
}

TEST_P(ServingTest, EarlierBeginning_isNotComputedAgain) {
  const std::string begin = "Once upon a time there was a little girl who lived in a house near the wood.";
  const Answer first = job_.ask({{"prompt", begin + " One day"}, {"max_tokens", 10}});
  const Answer other = job_.ask({{"prompt", "The king"}, {"max_tokens", 8}});
  const Answer second = job_.ask({{"prompt", begin + " She had"}, {"max_tokens", 10}});
  const Answer alone = job_.ask({{"prompt", begin + " She had"}, {"max_tokens", 10}, {"cache", false}});
  const auto shared = static_cast<int>(prompt_ids(job_.tokenizer(), begin).size());
  EXPECT_EQ(first.end["usage"]["cached_tokens"], 0);
  EXPECT_EQ(alone.end["usage"]["cached_tokens"], 0);
  EXPECT_GE(second.end["usage"]["cached_tokens"].get<int>(), shared - 1) << "behind another text";
  EXPECT_EQ(second.ids, alone.ids);
  std::vector<TokenId> longer = prompt_ids(job_.tokenizer(), begin + " She had");
  longer.insert(longer.end(), second.ids.begin(), second.ids.end());
  const Answer next = job_.ask({{"prompt", longer}, {"max_tokens", 6}});
  EXPECT_EQ(next.end["usage"]["cached_tokens"], longer.size() - 1) << "an answer stays, too, but for its last token";
  EXPECT_EQ(next.ids, job_.ask({{"prompt", longer}, {"max_tokens", 6}, {"cache", false}}).ids);
}

TEST_P(ServingTest, CancelledText_leavesTheNextAsItIs) {
  const Json next{{"prompt", "Once upon a time there was a dog"}, {"max_tokens", 10}, {"sampling", {{"temperature", 1}, {"seed", 5}}}};
  Json alone = next;
  alone["cache"] = false;
  const Answer wanted = job_.ask(alone);
  for (const std::size_t tokens : {0u, 1u, 5u}) {
    const int id = static_cast<int>(tokens);
    job_.lines.send({{"do", "submit"}, {"id", id}, {"prompt", kTale}, {"max_tokens", 60}});
    std::size_t steps = 0;  // behind the first token: later ones are said with others, at the end perhaps
    const auto begun = [&] { return tokens == 0 || !answer_of(job_.lines.said, id).ids.empty(); };
    job_.until([&] { return job_.lines.sent.empty() && begun() && ++steps >= tokens; });
    job_.lines.send({{"do", "cancel"}, {"id", id}});
    job_.until([&] { return !answer_of(job_.lines.said, id).end.is_null(); });
    EXPECT_EQ(answer_of(job_.lines.said, id).end["reason"], "cancelled");
    EXPECT_EQ(job_.ask(next).ids, wanted.ids) << tokens;
  }
}

TEST_P(ServingTest, LogProbabilities_areThoseOfTheWholeVocabulary) {
  const Answer few = job_.ask({{"prompt", kTale}, {"max_tokens", 6}, {"logprobs", 3}});
  const Answer all = job_.ask({{"prompt", kTale}, {"max_tokens", 6}, {"logprobs", 3}, {"logits_checksum", true}});
  ASSERT_EQ(few.logprobs.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    const Json& entry = few.logprobs[i];
    EXPECT_EQ(entry["id"], few.ids[i]);
    ASSERT_EQ(entry["top"].size(), 3u);
    EXPECT_EQ(entry["top"][0]["id"], entry["id"]) << "greedy";
    EXPECT_LE(entry["logprob"].get<double>(), 0);
    EXPECT_NEAR(entry["logprob"].get<double>(), all.logprobs[i]["logprob"].get<double>(), 1e-4);
    double sum = 0;
    for (const Json& other : entry["top"]) sum += std::exp(other["logprob"].get<double>());
    EXPECT_LE(sum, 1.0001);
  }
}

TEST_P(ServingTest, PenaltiesAndBias_changeTheText) {
  const Answer plain = job_.ask({{"prompt", kTale}, {"max_tokens", 16}});
  const Json bias{{std::to_string(plain.ids[0]), -100}};
  EXPECT_NE(job_.ask({{"prompt", kTale}, {"max_tokens", 1}, {"sampling", {{"logit_bias", bias}}}}).ids[0], plain.ids[0]);
  const Json forced{{"17", 100}};
  EXPECT_EQ(job_.ask({{"prompt", kTale}, {"max_tokens", 3}, {"sampling", {{"logit_bias", forced}}}}).ids,
            (std::vector<std::int32_t>{17, 17, 17}));
  const Json penalized{{"logit_bias", forced}, {"presence_penalty", 100}, {"frequency_penalty", 100}};
  const Answer once = job_.ask({{"prompt", kTale}, {"max_tokens", 3}, {"sampling", penalized}});
  EXPECT_EQ(std::ranges::count(once.ids, 17), 1);
}

TEST_P(ServingTest, SeedIsDrawnAndSaid) {
  const Json hot{{"temperature", 1.5}, {"top_k", 0}, {"top_p", 1}, {"min_p", 0}};
  const Answer first = job_.ask({{"prompt", kTale}, {"max_tokens", 10}, {"sampling", hot}});
  const Answer second = job_.ask({{"prompt", kTale}, {"max_tokens", 10}, {"sampling", hot}});
  EXPECT_NE(first.end["seed"], second.end["seed"]);
  EXPECT_NE(first.ids, second.ids);
  Json again = hot;
  again["seed"] = first.end["seed"];
  EXPECT_EQ(job_.ask({{"prompt", kTale}, {"max_tokens", 10}, {"sampling", again}}).ids, first.ids);
}

TEST_P(ServingTest, BadRequests_areRefusedAlone) {
  const Answer wanted = job_.ask({{"prompt", kTale}, {"max_tokens", 4}});
  const auto param = [&](Json request) { return job_.ask(std::move(request)).end.value("param", ""); };
  EXPECT_EQ(param({{"max_tokens", 3}}), "prompt");
  EXPECT_EQ(param({{"prompt", ""}, {"max_tokens", 0}}), "max_tokens");
  EXPECT_EQ(param({{"prompt", {1, 1 << 30}}}), "prompt");
  EXPECT_EQ(param({{"prompt", {1, -1}}}), "prompt");
  EXPECT_EQ(param({{"prompt", kTale}, {"kept", "x"}}), "kept");
  EXPECT_EQ(param({{"prompt", kTale}, {"stop", "x"}}), "stop");
  EXPECT_EQ(param({{"prompt", kTale}, {"sampling", {{"temperature", "hot"}}}}), "temperature");
  EXPECT_EQ(param({{"prompt", kTale}, {"sampling", {{"logit_bias", {{"999999999", 1}}}}}}), "logit_bias");
  const Answer longer = job_.ask({{"prompt", std::vector<int>(97, 5)}});
  EXPECT_EQ(longer.end["code"], "context_length_exceeded");
  EXPECT_NE(longer.end["message"].get<std::string>().find("maximum context length is 96 tokens"), std::string::npos);
  EXPECT_EQ(job_.ask({{"prompt", kTale}, {"max_tokens", 4}}).ids, wanted.ids);
  EXPECT_EQ(job_.ask({{"prompt", std::vector<int>(90, 5)}, {"sampling", {{"ignore_eos", true}}}}).end["reason"], "context");
}

TEST_P(ServingTest, Schema_determinesTheText) {
  const std::string schema = R"({"type":"object","properties":{"z":{"enum":["cat","dog"]},"a":{"type":"boolean"}},"required":["z","a"]})";
  const auto ask = [&](const std::string& id, const std::string& more) {
    job_.lines.sent.push_back(R"({"do":"submit","id":")" + id + R"(","prompt":"Once upon","max_tokens":60,"schema":)" + schema + more +
                              "}");
    job_.until([&] { return !answer_of(job_.lines.said, id).end.is_null(); });
    return answer_of(job_.lines.said, id);
  };
  const Answer whole = ask("whole", "");
  EXPECT_EQ(whole.end["reason"], "stop") << whole.end;
  const auto value = nlohmann::ordered_json::parse(whole.text);
  EXPECT_EQ(value.begin().key(), "z") << "the order is that of the line";
  EXPECT_TRUE(value["z"] == "cat" || value["z"] == "dog");
  for (const std::size_t kept : {std::size_t{1}, whole.ids.size() / 2, whole.ids.size()}) {
    const std::vector<std::int32_t> ids(whole.ids.begin(), whole.ids.begin() + static_cast<std::ptrdiff_t>(kept));
    const Answer rest = ask("kept " + std::to_string(kept), ",\"kept\":" + Json(ids).dump());
    EXPECT_EQ(rest.end["reason"], "stop") << kept;
    EXPECT_TRUE(whole.text.ends_with(rest.text)) << rest.text;
    EXPECT_EQ(rest.ids.size() + kept, whole.ids.size());
  }
  const Answer refused = job_.ask({{"prompt", kTale}, {"schema", {{"not", Json::object()}}}});
  EXPECT_EQ(refused.end["code"], "bad_value");
  EXPECT_EQ(refused.end["param"], "schema");
}

TEST_P(ServingTest, LongLines_areReadWhileTextsGoOn) {
  const std::string text(3 << 20, 'a');
  job_.lines.send({{"do", "submit"}, {"id", "first"}, {"prompt", kTale}, {"max_tokens", 12}});
  job_.lines.send({{"do", "tokenize"}, {"id", "long"}, {"text", text}});
  job_.lines.send({{"do", "submit"}, {"id", "cancelled"}, {"prompt", kTale}, {"stop", Json::array()}, {"more", std::string(1 << 20, 'x')}});
  job_.lines.send({{"do", "submit"}, {"id", "kept"}, {"prompt", kTale}, {"max_tokens", 12}, {"more", std::string(1 << 20, 'x')}});
  job_.lines.send({{"do", "cancel"}, {"id", "cancelled"}});
  job_.lines.send({{"do", "stop"}});
  job_.lines.send({{"do", "submit"}, {"id", "late"}, {"prompt", kTale}, {"more", std::string(1 << 20, 'x')}});
  job_.until([&] { return job_.server().done(); });
  EXPECT_GT(answer_of(job_.lines.said, "long").end["ids"].size(), text.size() / 64);
  EXPECT_EQ(answer_of(job_.lines.said, "cancelled").end["reason"], "cancelled");
  EXPECT_TRUE(answer_of(job_.lines.said, "cancelled").ids.empty());
  EXPECT_EQ(answer_of(job_.lines.said, "late").end["code"], "full");
  EXPECT_EQ(answer_of(job_.lines.said, "first").ids.size(), 12u);
  EXPECT_EQ(answer_of(job_.lines.said, "kept").ids, answer_of(job_.lines.said, "first").ids) << "it came before the stop";
}

TEST_P(ServingTest, StopLetsOpenRequestsFinish) {
  job_.lines.send({{"do", "submit"}, {"id", "a"}, {"prompt", kTale}, {"max_tokens", 8}});
  job_.lines.send({{"do", "submit"}, {"id", "b"}, {"prompt", kTale}, {"max_tokens", 8}});
  job_.lines.send({{"do", "stop"}});
  job_.lines.send({{"do", "submit"}, {"id", "c"}, {"prompt", kTale}});
  job_.until([&] { return job_.server().done(); });
  EXPECT_EQ(answer_of(job_.lines.said, "a").ids.size(), 8u);
  EXPECT_EQ(answer_of(job_.lines.said, "b").ids.size(), 8u);
  EXPECT_EQ(answer_of(job_.lines.said, "c").end["code"], "full");
}

TEST_P(ServingTest, EndOfInput_cancelsAll) {
  job_.lines.send({{"do", "submit"}, {"id", 1}, {"prompt", kTale}});
  job_.lines.send({{"do", "submit"}, {"id", 2}, {"prompt", kTale}});
  job_.lines.ended = true;
  job_.until([&] { return job_.server().done(); });
  for (const int id : {1, 2}) EXPECT_EQ(answer_of(job_.lines.said, id).end["reason"], "cancelled");
}

INSTANTIATE_TEST_SUITE_P(Layouts, ServingTest,
                         testing::Values(Layout{1, Strategy::kIterative}, Layout{1, Strategy::kSpeculative},
                                         Layout{3, Strategy::kPipeInfer}));

/// The first token at once, then what has come in a while, the rest with the end.
TEST(Serving, TokensOfAWhile_areOneLine) {
  ServedJob job(1);
  const ServedModel model{job.tokenizer(), SamplingParams{}, 96};
  const Submission submission = read_submission({{"prompt", kTale}, {"max_tokens", 9}, {"logprobs", 0}}, model);
  std::vector<Json> said;
  ServedText text(5, submission, job.tokenizer(), [&](const Json& line) { said.push_back(line); });
  const auto begin = Clock::now();
  const auto come = [&](std::initializer_list<std::chrono::milliseconds> times) {
    for (const auto time : times) {
      text.on_logprobs(1, {40, -1.5f}, {});
      text.on_token(1, 40);
      text.flush(begin + time);
    }
    return said.size();
  };
  constexpr auto kBetween = ServedText::kBetween;
  text.flush(begin - kBetween);
  EXPECT_TRUE(said.empty()) << "there is nothing to say";
  EXPECT_EQ(come({0 * kBetween}), 1u);
  EXPECT_EQ(come({kBetween / 4, kBetween / 2}), 1u);
  EXPECT_EQ(come({kBetween}), 2u);
  EXPECT_EQ(come({kBetween + kBetween / 2}), 2u);
  text.on_finished({});
  ASSERT_EQ(said.size(), 4u);
  constexpr std::array<std::size_t, 3> kIds{1, 3, 1};
  for (std::size_t i = 0; i < kIds.size(); ++i) {
    EXPECT_EQ(said[i]["ids"].size(), kIds[i]);
    EXPECT_EQ(said[i]["logprobs"].size(), kIds[i]);
  }
  EXPECT_EQ(said[2]["at"], 5);
}

/// Two texts of 90 tokens do not fit into 160 cells: the younger is paused.
TEST(Serving, SignsOfLife_sayWhatIsGoingOn) {
  ServedJob job(1, Strategy::kIterative, 2);
  const std::vector<TokenId> prompt = prompt_ids(job.tokenizer(), kTale);
  const int texts = 3, tokens = 90 - static_cast<int>(prompt.size());
  for (int id = 0; id < texts; ++id)
    job.lines.send({{"do", "submit"}, {"id", id}, {"prompt", prompt}, {"max_tokens", tokens}, {"sampling", {{"ignore_eos", true}}}});
  job.until([&] { return !job.lines.alive.is_null(); });
  EXPECT_EQ(job.lines.alive["texts"], 2);
  EXPECT_EQ(job.lines.alive["cells"], 2 * prompt.size());
  EXPECT_EQ(job.lines.alive["pauses"], 0);
  const auto ended = [&](int id) { return !answer_of(job.lines.said, id).end.is_null(); };
  job.until([&] { return ended(0) && ended(1) && ended(2); });
  job.lines.alive = nullptr;
  job.until([&] { return !job.lines.alive.is_null(); });
  EXPECT_EQ(job.lines.alive["texts"], 0);
  EXPECT_EQ(job.lines.alive["cells"], 0) << "what is kept of texts that have ended does not count";
  EXPECT_GT(job.lines.alive["pauses"], 0);
  EXPECT_EQ(answer_of(job.lines.said, 1).ids, answer_of(job.lines.said, 0).ids);
}

TEST(Serving, TimesOfTokens_areSaidIfAskedFor) {
  ServedJob job(1);
  EXPECT_FALSE(job.ask({{"prompt", kTale}, {"max_tokens", 5}}).end["seconds"].contains("tokens"));
  const Json seconds = job.ask({{"prompt", kTale}, {"max_tokens", 5}, {"token_times", true}}).end["seconds"];
  ASSERT_EQ(seconds["tokens"].size(), 5u);
  EXPECT_EQ(seconds["tokens"][0], 0);
  EXPECT_TRUE(std::ranges::is_sorted(seconds["tokens"].get<std::vector<double>>()));
  EXPECT_EQ(seconds["tokens"][4], seconds["text"]);
}

TEST(Serving, TooMuch_isAnErrorOfItsRequest) {
  ServedJob job(1);
  const auto message = [&](Json line, const Json& id) {
    job.lines.send(line);
    job.until([&] { return !job.lines.said.empty(); });
    const Json end = std::exchange(job.lines.said, {}).front();
    EXPECT_EQ(end.value("id", Json()), id);
    return end["message"].get<std::string>();
  };
  const std::string prompt(96 << 10, 'a');  // of 96 tokens
  EXPECT_NE(message({{"do", "submit"}, {"id", 1}, {"prompt", prompt}}, 1).find("your prompt has at least"), std::string::npos);
  EXPECT_NE(message({{"do", "tokenize"}, {"id", 2}, {"text", std::string((16 << 20) + 1, 'a')}}, 2).find("16 MiB"), std::string::npos);
  EXPECT_NE(message({{"do", "submit"}, {"id", std::string(257, 'i')}, {"prompt", "a"}}, nullptr).find("256 bytes"), std::string::npos);
  job.lines.sent.push_back("{\"do\":\"" + std::string(100'000, 'x'));
  job.lines.sent.push_back(std::string(100'000, '['));
  job.lines.sent.push_back(R"({"do":"tokenize","id":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}");
  job.lines.sent.push_back(std::string(InputLines::kMostBytes + 1, ' ') + "x");
  job.lines.sent.push_back(R"({"do":"stop"})" + std::string(1, '\0'));
  job.until([&] { return job.lines.said.size() == 5; });
  int deep = 0;
  for (const Json& line : job.lines.said) {
    const std::string error = line["message"];
    EXPECT_LT(error.size(), 400u);
    deep += error.find("too deep") != std::string::npos;
  }
  EXPECT_EQ(deep, 2);
  EXPECT_EQ(job.ask({{"prompt", kTale}, {"max_tokens", 4}}).ids.size(), 4u);
}

TEST(Serving, Tokens_andBack) {
  ServedJob job(1);
  const std::string text =
      "Gr\xc3\xbc\xc3\x9f"
      "e, \xe4\xbd\xa0\xe5\xa5\xbd";
  job.lines.send({{"do", "tokenize"}, {"id", 1}, {"text", text}});
  job.until([&] { return !job.lines.said.empty(); });
  const Json ids = job.lines.said[0]["ids"];
  EXPECT_EQ(job.lines.said[0]["is"], "tokenized");
  job.lines.send({{"do", "detokenize"}, {"id", 2}, {"ids", ids}});
  job.lines.send({{"do", "detokenize"}, {"id", 3}, {"ids", {-1}}});
  job.lines.send({{"do", "dance"}, {"id", 4}});
  job.until([&] { return job.lines.said.size() == 4; });
  EXPECT_NE(job.lines.said[1]["text"].get<std::string>().find(text), std::string::npos);
  for (const int id : {3, 4}) EXPECT_EQ(answer_of(job.lines.said, id).end["is"], "error");
}

}  // namespace
}  // namespace yamata::test
