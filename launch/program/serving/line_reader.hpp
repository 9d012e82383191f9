#pragma once
// Reads lines of the engine's protocol as far as that needs no job: JSON, tokens, schemas.
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "launch/program/serving/json_line.hpp"
#include "launch/program/serving/schemas.hpp"
#include "launch/program/serving/submission.hpp"

namespace yamata {

/// What a line asks for.
struct ReadLine {
  enum class Kind { kAnswered, kSubmit, kCancel, kStop };
  Kind kind = Kind::kAnswered;
  JsonLine id = nullptr;  ///< a number, a text, or null
  std::string answer{};   ///< a message
  std::optional<Submission> submission{};
};

/// Any thread may read.
class LineReader {
 public:
  /// The model outlives it.
  explicit LineReader(const ServedModel& model) : model_(model), schemas_(model.tokenizer) {}

  /// Whether reading this line may take long.
  static bool takes_long(std::string_view line);
  /// Errors become answers. `watch` is called now and then, and may throw something that is no std::exception, which ends the reading.
  ReadLine read(const std::string& line, const std::function<void()>& watch = {});
  Schemas& schemas() { return schemas_; }

 private:
  ReadLine obey(const std::string& raw, const JsonLine& line, const JsonLine& id, const std::function<void()>& watch);
  ReadLine submit(const std::string& raw, const JsonLine& line, const JsonLine& id, const std::function<void()>& watch);
  std::string tokenize(const JsonLine& line, const JsonLine& id, const std::function<void()>& watch) const;
  std::string detokenize(const JsonLine& line, const JsonLine& id) const;

  const ServedModel& model_;
  Schemas schemas_;
};

/// The answer that a request is refused.
JsonLine refusal_line(const JsonLine& id, const Refusal& refusal);

}  // namespace yamata
