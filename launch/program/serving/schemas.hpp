#pragma once
// The JSON schemas of requests.
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "launch/program/serving/json_line.hpp"
#include "launch/program/serving/submission.hpp"
#include "src/grammar/token_grammar.hpp"

namespace yamata {

/// Compiles schemas, and keeps those that were used last. Any thread may read.
class Schemas {
 public:
  /// The tokenizer outlives it.
  explicit Schemas(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  /// Gives a request the grammar of the line's "schema", which may begin behind "schema_after". `text`: the line itself, because the order
  /// of properties counts. Throws Refusal.
  void read(const std::string& text, const JsonLine& line, Submission& submission);
  /// Sets what else is known of a submission with a grammar. Only the thread that uses the grammars.
  void begin(Submission& submission);

 private:
  struct Kept {
    std::string schema, after;
    std::shared_ptr<TokenGrammar> grammar;
  };
  std::shared_ptr<TokenGrammar> find(std::string schema, std::string after);

  const Tokenizer& tokenizer_;
  std::mutex mutex_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;  // once there is a schema
  std::list<Kept> kept_;                                 // used last: first
};

}  // namespace yamata
