#include "launch/program/serving/line_reader.hpp"

#include <fmt/format.h>

#include <new>
#include <utility>
#include <vector>

#include "launch/program/serving/input_lines.hpp"
#include "launch/program/serving/output_lines.hpp"

namespace yamata {
namespace {

constexpr std::size_t kLongestId = 256;              // bytes
constexpr std::size_t kLongestMessage = 300;         // bytes of an error
constexpr std::size_t kLongestTokenized = 16 << 20;  // bytes; needs a GiB

/// Whether arrays and objects are nested deeper than anything that the protocol knows.
bool too_deep(std::string_view json) {
  constexpr int kDeepest = 256;
  int depth = 0;
  bool text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (text) {
      if (c == '\\') ++i;
      if (c == '"') text = false;
    } else if (c == '"') {
      text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

JsonLine error_line(const JsonLine& id, std::string message) {
  if (message.size() > kLongestMessage) message = message.substr(0, kLongestMessage) + "...";
  JsonLine line{{"is", "error"}, {"message", std::move(message)}};
  if (!id.is_null()) line["id"] = id;
  return line;
}

JsonLine id_of(const JsonLine& line) {
  const auto id = line.find("id");
  if (id == line.end()) return nullptr;
  const bool usable = id->is_number_integer() || (id->is_string() && id->get_ref<const std::string&>().size() <= kLongestId);
  return usable ? *id : JsonLine();
}

bool submits(const JsonLine& line) {
  const auto what = line.find("do");
  return what != line.end() && what->is_string() && what->get_ref<const std::string&>() == "submit";
}

/// Refuses an answer that no front end reads.
void require_sendable(const std::string& answer) {
  if (answer.size() > OutputLines::kMostBytes) throw Refusal{"", "", "the answer would have more than 64 MiB; ask for less at a time"};
}

}  // namespace

bool LineReader::takes_long(std::string_view line) {
  constexpr std::size_t kShort = 16 << 10;
  return line.size() > kShort || line.find("schema") != std::string_view::npos;
}

JsonLine refusal_line(const JsonLine& id, const Refusal& refusal) {
  return {{"is", "refused"}, {"id", id}, {"code", refusal.code}, {"param", refusal.param}, {"message", refusal.message}};
}

ReadLine LineReader::read(const std::string& line, const std::function<void()>& watch) {
  JsonLine id;
  bool submitted = false;
  const auto answered = [](const JsonLine& answer) { return ReadLine{.answer = json_text(answer)}; };
  try {
    if (line.size() > InputLines::kMostBytes) throw Refusal{"", "", "a line has more than 64 MiB"};
    if (line.find('\0') != std::string::npos) throw Refusal{"", "", "a line holds a zero byte"};  // the parser would end there
    if (too_deep(line)) throw Refusal{"", "", "arrays and objects are nested too deep"};
    const JsonLine read = JsonLine::parse(line);
    if (!read.is_object()) throw Refusal{"", "", "a line must be a JSON object"};
    id = id_of(read);
    submitted = submits(read);
    return obey(line, read, id, watch);
  } catch (const Refusal& refusal) {
    return answered(submitted ? refusal_line(id, refusal) : error_line(id, refusal.message));
  } catch (const JsonLine::exception& error) {
    return answered(error_line(id, error.what()));
  } catch (const std::bad_alloc&) {
    return answered(error_line(id, "not enough memory"));
  }
}

ReadLine LineReader::obey(const std::string& raw, const JsonLine& line, const JsonLine& id, const std::function<void()>& watch) {
  const std::string what = read_string(line, "do");
  if (what == "submit") return submit(raw, line, id, watch);
  if (what == "cancel") return {.kind = ReadLine::Kind::kCancel, .id = id};
  if (what == "stop") return {.kind = ReadLine::Kind::kStop};
  if (what == "tokenize") return {.answer = tokenize(line, id, watch)};
  if (what == "detokenize") return {.answer = detokenize(line, id)};
  return {.answer = json_text(error_line(id, "unknown: \"do\":\"" + what.substr(0, 80) + "\""))};
}

ReadLine LineReader::submit(const std::string& raw, const JsonLine& line, const JsonLine& id, const std::function<void()>& watch) {
  if (id.is_null()) throw Refusal{"bad_value", "id", fmt::format("id must be a whole number, or a text of at most {} bytes", kLongestId)};
  ReadLine read{.kind = ReadLine::Kind::kSubmit, .id = id, .submission = read_submission(line, model_, watch)};
  schemas_.read(raw, line, *read.submission);
  return read;
}

std::string LineReader::tokenize(const JsonLine& line, const JsonLine& id, const std::function<void()>& watch) const {
  const std::string text = read_string(line, "text");
  if (text.size() > kLongestTokenized) throw Refusal{"", "", "a text of more than 16 MiB is not tokenized"};
  const bool special = read_flag(line, "special", true), bos = read_flag(line, "bos", false);
  const std::vector<TokenId> ids = model_.tokenizer.encode(text, bos, special, watch);
  std::string answer = json_text({{"is", "tokenized"}, {"id", id}, {"ids", JsonLine::array()}});
  const std::size_t at = answer.rfind("\"ids\":[") + std::string_view("\"ids\":[").size();
  std::string list;
  for (const TokenId token : ids) {
    if (!list.empty()) list += ',';
    list += std::to_string(token);
    if (list.size() % 4096 == 0 && watch) watch();
  }
  answer.insert(at, list);
  require_sendable(answer);
  return answer;
}

std::string LineReader::detokenize(const JsonLine& line, const JsonLine& id) const {
  StreamDecoder decoder(model_.tokenizer, read_flag(line, "special", true));
  std::string text;
  for (const TokenId token : read_ids(line, "ids", model_.tokenizer)) {
    text += decoder.push(token);
    require_sendable(text);
  }
  const std::string answer = json_text({{"is", "detokenized"}, {"id", id}, {"text", text + decoder.finish()}});
  require_sendable(answer);
  return answer;
}

}  // namespace yamata
