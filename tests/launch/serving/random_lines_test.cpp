// Mutated lines of the protocol: each is answered or ignored, and the job goes on.
#include <gtest/gtest.h>

#include <random>

#include "tests/launch/serving/served_job.hpp"

namespace yamata::test {
namespace {

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}
  std::string line() {
    std::string line = kLines[below(std::size(kLines))];
    for (std::size_t changes = below(4); changes > 0; --changes) change(line);
    return line;
  }

 private:
  static constexpr const char* kLines[] = {
      R"({"do":"submit","id":7,"prompt":"Once upon","max_tokens":1,"sampling":{"temperature":0.8,"seed":3,"logit_bias":{"5":-1}}})",
      R"({"do":"submit","id":"x","prompt":[1,5,9],"kept":[4,5],"max_tokens":3,"stop":["a","the"],"logprobs":2,"special":true})",
      R"({"do":"cancel","id":7})", R"({"do":"tokenize","id":8,"text":"a b","special":false,"bos":true})",
      R"({"do":"detokenize","id":9,"ids":[1,2,3]})"};
  static constexpr const char* kPieces[] = {
      "null", "-1",   "1e999",   "[[[[[[[[", "{}", "\"\"", "\"\\ud800\"", "99999999999999999999", "true",
      ",",    "\xff", "\\u0000", "{\"do\":", "]",  "}"};
  std::size_t below(std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most - 1)(random_); }
  void change(std::string& line) {
    const std::size_t at = below(line.size() + 1);
    switch (below(4)) {
      case 0:
        line.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 1:
        line.erase(at, 1 + below(8));
        break;
      case 2:
        if (at < line.size()) line[at] = static_cast<char>(below(256));
        break;
      default:
        if (at < line.size()) line.replace(at, 1 + below(6), kPieces[below(std::size(kPieces))]);
    }
  }
  std::mt19937 random_;
};

TEST(ProtocolLines, MutatedOnes_areAnsweredOrIgnored) {
  constexpr std::uint32_t kSeed = 1;
  constexpr int kLinesTried = 3000;
  ServedJob job(1);
  const Answer wanted = job.ask({{"prompt", "Once upon a time"}, {"max_tokens", 6}});
  Mutator mutator(kSeed);
  for (int i = 0; i < kLinesTried; ++i) {
    const std::string line = mutator.line();
    if (line.find("\"stop\"}") != std::string::npos) continue;
    job.lines.sent.push_back(line);
    if (i % 100 == 99) {
      for (const Json& id : {Json(7), Json("x")}) job.lines.send({{"do", "cancel"}, {"id", id}});
      job.until([&] { return job.lines.sent.empty(); });
      job.lines.said.clear();
    }
  }
  EXPECT_EQ(job.ask({{"prompt", "Once upon a time"}, {"max_tokens", 6}}).ids, wanted.ids);
}

}  // namespace
}  // namespace yamata::test
