#pragma once
// A job that serves a front end of the test, in one process.
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launch/program/job/guessing.hpp"
#include "launch/program/serving/engine_server.hpp"
#include "tests/launch/job/job_cluster.hpp"

namespace yamata::test {

using Json = nlohmann::json;

/// Lines of the test, and what is said.
struct Lines final : FrontEnd {
  std::optional<std::string> take() override {
    if (sent.empty()) return std::nullopt;
    std::string line = std::move(sent.front());
    sent.pop_front();
    return line;
  }
  bool input_ended() const override { return ended && sent.empty(); }
  void say_text(std::string text) override {
    const Json message = Json::parse(text);
    // Signs of life are not answers.
    if (message["is"] == "alive") {
      alive = message;
    } else if (message["is"] != "prompt") {
      said.push_back(message);
    }
  }
  bool output_lost() const override { return lost; }
  void send(const Json& line) { sent.push_back(line.dump()); }

  std::deque<std::string> sent;
  std::vector<Json> said;
  Json alive;  // the last sign of life
  bool ended = false, lost = false;
};

/// The answer to a request, put together.
struct Answer {
  std::string text;
  std::vector<std::int32_t> ids;
  Json logprobs = Json::array();
  Json end;  // done, refused or error; null: none yet
};

inline Answer answer_of(const std::vector<Json>& said, const Json& id) {
  Answer answer;
  for (const Json& line : said) {
    if (line.value("id", Json()) != id) continue;
    if (line["is"] != "text") {
      answer.end = line;
      continue;
    }
    answer.text += line["text"].get<std::string>();
    for (const Json& token : line["ids"]) answer.ids.push_back(token.get<std::int32_t>());
    for (const Json& entry : line.value("logprobs", Json::array())) answer.logprobs.push_back(entry);
  }
  return answer;
}

class ServedJob {
 public:
  explicit ServedJob(int ranks, Strategy strategy = Strategy::kIterative, int slots = 1)
      : cluster_(options_of(strategy), ranks), text_(text_of(strategy, slots)) {
    Job& job = cluster_.job();
    job.open();
    tokenizer_ = Tokenizer::load(job.rank().models().target().file);
    job.start(text_);
    job.serve([&](Head& head) {
      const DecodeOptions decode = decode_options(job.rank(), text_);
      GuessSources sources = connect_sources(job, {}, decode, std::make_shared<SuffixMemory>());
      engine_ = std::make_unique<Engine>(head, std::move(sources), decode);
      model_.emplace(ServedModel{*tokenizer_, SamplingParams{}, job.rank().context()});
      server_ = std::make_unique<EngineServer>(head, *engine_, *model_, lines);
    });
  }
  ~ServedJob() {
    server_.reset();
    engine_.reset();
    cluster_.job().end();
  }

  /// Serves until this is so.
  void until(const std::function<bool()>& reached) {
    cluster_.job().serve([&](Head& head) {
      while (!reached()) {
        if (!server_->step()) head.rest();
      }
    });
  }
  /// Sends a request and waits for its end.
  Answer ask(Json request) {
    if (!request.contains("id")) request["id"] = ++last_;
    request["do"] = "submit";
    lines.send(request);
    until([&] { return !answer_of(lines.said, request["id"]).end.is_null(); });
    return answer_of(lines.said, request["id"]);
  }
  EngineServer& server() { return *server_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

  Lines lines;

 private:
  static JobOptions options_of(Strategy strategy) {
    JobOptions options = tales();
    options.layout.strategy = strategy;
    options.layout.guesses_text = strategy != Strategy::kIterative;
    options.cache.context = 96;
    return options;
  }
  static ExpectedText text_of(Strategy strategy, int slots) {
    ExpectedText text{.prompt_tokens = 24, .generate = 24};
    text.slots = slots;
    text.speculation.policy.name = strategy == Strategy::kIterative ? "chain" : "best-first";
    text.kept_texts = 4;
    text.cache_tokens = 160;
    return text;
  }

  JobCluster cluster_;
  const ExpectedText text_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
  std::optional<ServedModel> model_;
  std::unique_ptr<EngineServer> server_;
  int last_ = 1000;
};

}  // namespace yamata::test
