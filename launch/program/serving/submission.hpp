#pragma once
// A request as a line of the engine's protocol says it (docs/serving.md).
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launch/program/serving/json_line.hpp"
#include "mpi/engine/request.hpp"
#include "src/tokenizer/tokenizer.hpp"

namespace yamata {

/// Why a request is refused.
struct Refusal {
  std::string code;     ///< context_length_exceeded, full or bad_value
  std::string param;    ///< the field
  std::string message;  ///< for people
};

/// What a request's text is computed with.
struct ServedModel {
  const Tokenizer& tokenizer;
  SamplingParams defaults;  ///< for absent values
  int context = 0;          ///< tokens
};

struct Submission {
  Request request;  ///< its prompt ends with the kept tokens
  std::vector<std::string> stops;
  bool special = false;   ///< control tokens come as text
  bool times = false;     ///< the end says when each token was known
  bool complete = false;  ///< the kept tokens are all that its schema allows
};

/// Reads `{"do":"submit",…}`. Throws Refusal. `watch`: as in Tokenizer::encode.
Submission read_submission(const JsonLine& line, const ServedModel& model, const std::function<void()>& watch = {});

/// The ids of a prompt: texts of special tokens become these, and it begins with at most one BOS.
std::vector<TokenId> prompt_ids(const Tokenizer& tokenizer, std::string_view text, const std::function<void()>& watch = {});

/// A list of token ids in the vocabulary. Throws Refusal naming the field.
std::vector<TokenId> read_ids(const JsonLine& line, const char* name, const Tokenizer& tokenizer);
/// A text; `fallback` if it is absent. Throws Refusal.
std::string read_string(const JsonLine& line, const char* name);
bool read_flag(const JsonLine& line, const char* name, bool fallback);

}  // namespace yamata
