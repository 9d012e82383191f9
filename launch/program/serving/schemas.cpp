#include "launch/program/serving/schemas.hpp"

#include <utility>

#include "node/error.hpp"
#include "src/grammar/json_schema.hpp"
#include "src/grammar/tokenizer_vocabulary.hpp"

namespace yamata {
namespace {

constexpr std::size_t kMostKept = 8;
constexpr std::size_t kLargePlaces = 1 << 17;  // a grammar that has met so many is compiled again, so that it does not grow for ever

}  // namespace

/// The thread that serves may use what is found meanwhile: it is not looked at.
std::shared_ptr<TokenGrammar> Schemas::find(std::string schema, std::string after) {
  const std::lock_guard lock(mutex_);
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
    if (kept->schema != schema || kept->after != after) continue;
    kept_.splice(kept_.begin(), kept_, kept);
    return kept_.front().grammar;
  }
  if (!vocabulary_) vocabulary_ = grammar_vocabulary(tokenizer_);
  auto grammar = std::make_shared<TokenGrammar>(vocabulary_, compile_json_schema(schema, {.trigger = after}));
  kept_.push_front({std::move(schema), std::move(after), grammar});
  if (kept_.size() > kMostKept) kept_.pop_back();
  return grammar;
}

void Schemas::read(const std::string& text, const JsonLine& line, Submission& submission) {
  const auto schema = line.find("schema"), after = line.find("schema_after");
  if (schema == line.end() || schema->is_null()) return;
  const bool follows = after != line.end() && !after->is_null();
  if (follows && !after->is_string()) throw Refusal{"bad_value", "schema_after", "schema_after must be a text"};
  Request& request = submission.request;
  try {
    request.grammar = find(member_in_order(text, "schema"), follows ? after->get<std::string>() : std::string());
  } catch (const UsageError& error) {
    throw Refusal{"bad_value", "schema", error.what()};
  }
  request.banned.clear();  // the schema says where the text may end
}

void Schemas::begin(Submission& submission) {
  const Request& request = submission.request;
  if (!request.grammar) return;
  if (request.grammar->reader().places() > kLargePlaces) {
    const std::lock_guard lock(mutex_);
    kept_.remove_if([&](const Kept& kept) { return kept.grammar == request.grammar; });
  }
  const auto kept = std::span(request.prompt).last(static_cast<std::size_t>(request.kept));
  submission.complete = request.grammar->complete(request.grammar->after_all(kept));
}

}  // namespace yamata
