#include "launch/program/options/prompt_list.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "launch/program/options/text_encoding.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

std::optional<std::string> prompt_of(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  for (const char* key : {"prompt", "text"}) {
    if (json.contains(key) && json[key].is_string()) return json[key].get<std::string>();
  }
  const auto turns = json.find("turns");
  const bool first = turns != json.end() && turns->is_array() && !turns->empty() && turns->front().is_string();
  return first ? std::optional(turns->front().get<std::string>()) : std::nullopt;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) text.replace(at, what.size(), with);
  return text;
}

}  // namespace

std::vector<std::string> read_prompt_list(const std::string& jsonl, const std::string& file) {
  std::vector<std::string> prompts;
  std::istringstream lines(jsonl);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto prompt = prompt_of(line);
    if (const std::string fault = encoding_fault(line); !prompt && !fault.empty())
      throw ModelError(fmt::format("{}: line {} {}; a list of prompts is JSON, which is UTF-8", file, number, fault));
    if (!prompt && !nlohmann::json::accept(line))
      throw ModelError(fmt::format("{}: line {} is not JSON; each line of a list of prompts is an object, such as {{\"prompt\": \"Once\"}}",
                                   file, number));
    if (!prompt) throw ModelError(fmt::format("{}: line {} has no text in \"prompt\", \"text\" or \"turns\"; check -f", file, number));
    prompts.push_back(*std::move(prompt));
  }
  return prompts;
}

bool looks_like_prompt_list(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string::npos && prompt_of(text.substr(begin, text.find('\n', begin) - begin));
}

std::string formatted_prompt(const std::string& format, const std::string& prompt) {
  return replaced(replaced(format, "\\n", "\n"), "{}", prompt);
}

}  // namespace yamata
