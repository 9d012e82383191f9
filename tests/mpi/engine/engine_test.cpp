// Requests one after another with real models: the same texts as in single jobs, for any guess source and number of ranks.
#include "mpi/engine/engine.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "mpi/planning/layer_split.hpp"
#include "src/grammar/json_schema.hpp"
#include "src/grammar/tokenizer_vocabulary.hpp"
#include "tests/mpi/local_cluster.hpp"

namespace yamata::test {
namespace {

constexpr std::int32_t kContext = 96, kGuessCells = 32;

enum class Draft { kNone, kOnTheHead, kOnARank };

struct Recorder final : RequestObserver {
  void on_token(RequestId request, std::int32_t) override {
    if (++tokens == cancel_after) engine->cancel(request);
  }
  void on_finished(Completion c) override { completion = std::move(c); }
  std::optional<Completion> completion;
  Engine* engine = nullptr;
  int tokens = 0, cancel_after = -1;
};

/// A job with this many ranks, one of which may be the drafter.
class EngineJob {
 public:
  EngineJob(int ranks, Draft draft, Strategy strategy, int slots = 1)
      : models_(draft == Draft::kNone ? 1 : 2), own_(models_), cluster_(ranks, {}, models_), head_(cluster_.head(), options()) {
    decode_.strategy = strategy;
    decode_.context = kContext;
    if (strategy != Strategy::kIterative) {
      decode_.guess_cells = kGuessCells;
      decode_.sequences = {0, kGuessCells + 1};
      decode_.lookup = true;
    }
    decode_.slots = slots;
    const wire::Start plan = make_plan(draft == Draft::kOnARank ? ranks - 1 : ranks, draft == Draft::kOnTheHead ? 0 : ranks - 1);
    const auto planner = [&](const std::vector<wire::Hello>&) { return plan; };
    head_.start(hello_of(0, models_), std::vector<std::uint64_t>(models_, 42), planner, own_.factory());
    GuessSources sources(cluster_.head());
    if (models_ > 1) sources.add_drafter({.rank = plan.pipelines[1].ranks[0]}, VocabularyMap{}, 0.2);
    if (decode_.lookup) sources.add_suffixes();
    engine_.emplace(head_, std::move(sources), decode_);
  }
  ~EngineJob() { head_.stop(0); }
  Engine& engine() { return *engine_; }
  void interrupt() { interrupted_ = true; }
  void go_on() { interrupted_ = false; }

 private:
  ClusterOptions options() {
    ClusterOptions options;
    options.interrupted = &interrupted_;
    return options;
  }
  wire::Start make_plan(int stages, int drafter) {
    wire::Start plan;
    wire::PipelinePlan target;
    target.ranks.resize(static_cast<std::size_t>(stages));
    std::iota(target.ranks.begin(), target.ranks.end(), 0);
    target.layers = split_layers(own_.model().file, own_.model().h, {}, stages);
    target.cells = kContext * decode_.slots + decode_.guess_cells;
    target.sequences = decode_.all_sequences();
    plan.pipelines = {target};
    if (models_ == 1) return plan;
    wire::PipelinePlan draft;
    draft.model = 1;
    draft.ranks = {drafter};
    draft.layers = split_layers(own_.model(1).file, own_.model(1).h, {}, 1);
    draft.slots = decode_.slots;
    draft.slot_sequences = plan.draft.credit + 1;
    draft.cells = draft.slots * (kContext + plan.draft.credit);
    draft.sequences = draft.slots * draft.slot_sequences;
    plan.pipelines.push_back(draft);
    return plan;
  }

  const std::size_t models_;
  std::atomic<bool> interrupted_{false};
  LocalRank own_;
  DecodeOptions decode_;
  LocalCluster cluster_;
  Head head_;
  std::optional<Engine> engine_;
};

std::vector<Request> requests() {
  std::vector<Request> all(3);
  all[0].prompt = {1, 403, 17, 2500, 90};
  all[1].prompt = {1, 7};
  all[2].prompt = {1, 403, 17, 33, 44, 9, 8};
  for (Request& request : all) {
    request.generate = 24;
    request.checksum = true;
  }
  all[1].sampling.temperature = 0.8f;
  all[1].sampling.seed = 5;
  return all;
}

std::vector<Completion> complete(EngineJob& job, const std::vector<Request>& requests) {
  std::vector<Recorder> told(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) job.engine().submit(requests[i], told[i]);
  job.engine().run();
  std::vector<Completion> all;
  for (Recorder& recorder : told) all.push_back(std::move(recorder.completion.value()));
  return all;
}

/// Each request in a job of its own, with one rank.
std::vector<Completion> single_jobs() {
  std::vector<Completion> all;
  for (const Request& request : requests()) {
    EngineJob job(1, Draft::kNone, Strategy::kIterative);
    all.push_back(complete(job, {request}).front());
  }
  return all;
}

struct Shape {
  Draft draft;
  Strategy strategy;
};

class EngineTest : public testing::TestWithParam<Shape> {};

TEST_P(EngineTest, RequestsInOneJob_giveTheTextsOfSingleJobs) {
  const std::vector<Completion> alone = single_jobs();
  for (int ranks = GetParam().draft == Draft::kOnARank ? 2 : 1; ranks <= 4; ++ranks) {
    EngineJob job(ranks, GetParam().draft, GetParam().strategy);
    const std::vector<Completion> together = complete(job, requests());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(together[i].token_ids, alone[i].token_ids) << ranks << " ranks, request " << i;
      EXPECT_EQ(together[i].logits_checksum, alone[i].logits_checksum) << ranks << " ranks, request " << i;
      EXPECT_EQ(together[i].request, i + 1);
      EXPECT_EQ(together[i].choices.size(), GetParam().draft == Draft::kNone ? 0u : alone[i].token_ids.size());
      const double earlier_s = i > 0 ? together[i - 1].token_times_s.back() : 0;
      EXPECT_GE(together[i].first_token_s, earlier_s + together[i].prefill_s) << "it was in the queue meanwhile";
    }
  }
}

TEST_P(EngineTest, RequestsAtTheSameTime_giveTheTextsOfSingleJobs) {
  const std::vector<Completion> alone = single_jobs();
  std::vector<Request> six = requests();
  for (const Request& request : requests()) six.push_back(request);
  six[3].generate = 9;
  for (int ranks = GetParam().draft == Draft::kOnARank ? 2 : 1; ranks <= 4; ++ranks) {
    for (const int slots : {2, 4, 8}) {
      EngineJob job(ranks, GetParam().draft, GetParam().strategy, slots);
      const std::vector<Completion> together = complete(job, six);
      for (std::size_t i = 0; i < six.size(); ++i) {
        const std::vector<std::int32_t>& expected = alone[i % 3].token_ids;
        ASSERT_EQ(together[i].token_ids.size(), i == 3 ? 9u : expected.size());
        EXPECT_TRUE(std::ranges::equal(together[i].token_ids, std::span(expected).first(together[i].token_ids.size())))
            << ranks << " ranks, " << slots << " slots, request " << i;
        EXPECT_TRUE(GetParam().draft != Draft::kOnARank || together[i].choices.size() == together[i].token_ids.size());
        if (i == 3) continue;  // it is shorter
        EXPECT_EQ(together[i].logits_checksum, alone[i % 3].logits_checksum);
      }
    }
  }
}

TEST_P(EngineTest, RequestAfterInterruptedOnes_givesTheTextOfASingleJob) {
  const std::vector<Completion> alone = single_jobs();
  EngineJob job(GetParam().draft == Draft::kOnARank ? 4 : 3, GetParam().draft, GetParam().strategy);
  Recorder cancelled, interrupted;
  cancelled.engine = &job.engine();
  cancelled.cancel_after = 5;
  job.engine().submit(requests()[0], cancelled);
  job.engine().run();
  job.engine().submit(requests()[1], interrupted);
  job.interrupt();
  EXPECT_THROW(job.engine().run(), Interrupted);
  job.go_on();
  EXPECT_EQ(cancelled.completion.value().finish, FinishReason::kInterrupted);
  EXPECT_EQ(interrupted.completion.value().finish, FinishReason::kInterrupted);
  const std::vector<std::int32_t>& some = cancelled.completion->token_ids;
  ASSERT_GE(some.size(), 5u);
  EXPECT_LT(some.size(), alone[0].token_ids.size());
  EXPECT_TRUE(std::equal(some.begin(), some.end(), alone[0].token_ids.begin()));
  EXPECT_EQ(complete(job, {requests()[2]}).front().logits_checksum, alone[2].logits_checksum);
}

/// Fails at a token.
struct Failing final : RequestObserver {
  void on_token(RequestId, std::int32_t) override {
    if (++tokens == fails_at) throw std::runtime_error("its reader has gone");
  }
  void on_finished(Completion) override { finished = true; }
  void on_failed(RequestId id, std::exception_ptr error) override {
    failed = id;
    EXPECT_THROW(std::rethrow_exception(error), std::exception);
  }
  RequestId failed = 0;
  bool finished = false;
  int tokens = 0, fails_at = -1;
};

TEST_P(EngineTest, RequestsThatFail_endAlone) {
  const std::vector<Completion> alone = single_jobs();
  EngineJob job(GetParam().draft == Draft::kOnARank ? 3 : 2, GetParam().draft, GetParam().strategy);
  Failing at_a_token, without_a_token;
  at_a_token.fails_at = 5;
  job.engine().submit(requests()[0], at_a_token);
  Request nothing_left = requests()[1];
  nothing_left.banned.resize(static_cast<std::size_t>(LocalRank().model().h.vocabulary));
  std::iota(nothing_left.banned.begin(), nothing_left.banned.end(), 0);
  job.engine().submit(nothing_left, without_a_token);
  EXPECT_EQ(complete(job, {requests()[2]}).front().logits_checksum, alone[2].logits_checksum);
  EXPECT_EQ(at_a_token.failed, 1u);
  EXPECT_EQ(at_a_token.tokens, 5);
  EXPECT_EQ(without_a_token.failed, 2u);
  EXPECT_EQ(without_a_token.tokens, 0);
  EXPECT_FALSE(at_a_token.finished || without_a_token.finished);
}

TEST_P(EngineTest, FailureThatTheObserverDoesNotTake_isTheCallers) {
  struct : RequestObserver {
    void on_token(RequestId, std::int32_t) override { throw std::runtime_error("its reader has gone"); }
    void on_finished(Completion) override { ADD_FAILURE(); }
  } failing;
  const std::vector<Completion> alone = single_jobs();
  EngineJob job(2, GetParam().draft, GetParam().strategy);
  job.engine().submit(requests()[0], failing);
  EXPECT_THROW(job.engine().run(), std::runtime_error);
  EXPECT_EQ(complete(job, {requests()[1]}).front().token_ids, alone[1].token_ids);
}

/// So little is open that a text ends soon.
std::shared_ptr<TokenGrammar> grammar_of(const Tokenizer& tokenizer) {
  return std::make_shared<TokenGrammar>(grammar_vocabulary(tokenizer), compile_json_schema(R"({"type":"object","properties":{
    "name":{"type":"string","maxLength":5},"kind":{"enum":["cat","dog"]},"ages":{"type":"array","maxItems":1,
    "items":{"type":"integer","maximum":99}}},"required":["name","kind","ages"]})"));
}

TEST_P(EngineTest, TextOfASchema_isValidAndTheSameWhereverItIsComputed) {
  const LocalRank own;
  const auto tokenizer = Tokenizer::load(own.model().file);
  std::vector<Request> all = requests();
  for (Request& request : all) request.generate = 80;
  all[2].sampling = {.temperature = 1.5f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 8};
  std::vector<Completion> alone;
  for (const int ranks : {1, GetParam().draft == Draft::kOnARank ? 3 : 2}) {
    EngineJob job(ranks, ranks == 1 ? Draft::kNone : GetParam().draft, ranks == 1 ? Strategy::kIterative : GetParam().strategy);
    for (Request& request : all) request.grammar = grammar_of(*tokenizer);
    const std::vector<Completion> texts = complete(job, all);
    if (alone.empty()) alone = texts;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(texts[i].token_ids, alone[i].token_ids) << ranks << " ranks, request " << i;
      EXPECT_EQ(texts[i].finish, FinishReason::kStop);
      std::string text;
      for (const std::int32_t token : texts[i].token_ids) text += tokenizer->piece(token);
      const auto value = nlohmann::json::parse(text);
      EXPECT_TRUE(value.at("name").is_string() && value.at("ages").size() <= 1) << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WhoeverGuesses, EngineTest,
                         testing::Values(Shape{Draft::kNone, Strategy::kIterative}, Shape{Draft::kNone, Strategy::kPipeInfer},
                                         Shape{Draft::kOnARank, Strategy::kPipeInfer}, Shape{Draft::kOnARank, Strategy::kSpeculative},
                                         Shape{Draft::kOnTheHead, Strategy::kPipeInfer}));

}  // namespace
}  // namespace yamata::test
