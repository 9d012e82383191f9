#include "launch/program/options/prompt_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "launch/program/options/text_encoding.hpp"
#include "launch/program/output/warnings.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

std::optional<std::string> text_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? std::optional(found->get<std::string>()) : std::nullopt;
}

/// The text of a line, whichever key it has, as text_of in launch/python/measuring/prompts.py reads it.
std::optional<std::string> prompt_of(const nlohmann::json& json) {
  if (!json.is_object()) return std::nullopt;
  for (const char* key : {"prompt", "text"}) {
    if (auto text = text_at(json, key)) return text;
  }
  const auto turns = json.find("turns");
  if (turns != json.end() && turns->is_array() && !turns->empty() && turns->front().is_string()) return turns->front().get<std::string>();
  if (auto question = text_at(json, "question")) return question;
  auto instruction = text_at(json, "instruction");
  const std::string input = text_at(json, "input").value_or("");
  if (instruction && !input.empty()) *instruction += "\n" + input;
  return instruction;
}

/// Leaves out the prompts of other categories; throws UsageError for one that no line has.
void keep(std::vector<std::pair<std::string, std::string>>& found, const std::vector<std::string>& categories, const std::string& file) {
  std::set<std::string> known;
  for (const auto& [category, prompt] : found) known.insert(category);
  known.erase("");
  for (const std::string& category : categories) {
    if (known.contains(category)) continue;
    throw UsageError(known.empty()
                         ? fmt::format("--categories: {} has no categories; leave it out", file)
                         : fmt::format("--categories: {} has no category '{}'; there are {}", file, category, fmt::join(known, ", ")));
  }
  std::erase_if(found, [&](const auto& one) { return std::ranges::find(categories, one.first) == categories.end(); });
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) text.replace(at, what.size(), with);
  return text;
}

}  // namespace

std::vector<std::string> read_prompt_list(const std::string& jsonl, const std::string& file, const std::vector<std::string>& categories) {
  std::vector<std::pair<std::string, std::string>> found;  // category, prompt
  std::istringstream lines(jsonl);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    auto prompt = prompt_of(json);
    if (const std::string fault = encoding_fault(line); !prompt && !fault.empty())
      throw ModelError(fmt::format("{}: line {} {}; a list of prompts is JSON, which is UTF-8", file, number, fault));
    if (!prompt && json.is_discarded())
      throw ModelError(fmt::format("{}: line {} is not JSON; each line of a list of prompts is an object, such as {{\"prompt\": \"Once\"}}",
                                   file, number));
    if (!prompt)
      throw ModelError(fmt::format("{}: line {} has no text in \"prompt\", \"text\", \"turns\", \"question\" or \"instruction\"; check -f",
                                   file, number));
    found.emplace_back(text_at(json, "category").value_or(""), *std::move(prompt));
  }
  if (!categories.empty()) keep(found, categories, file);
  std::vector<std::string> prompts;
  for (auto& [category, prompt] : found) prompts.push_back(std::move(prompt));
  return prompts;
}

bool looks_like_prompt_list(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return false;
  return prompt_of(nlohmann::json::parse(text.substr(begin, text.find('\n', begin) - begin), nullptr, false)).has_value();
}

void warn_of_prompt_list(const std::string& text, const TextSource& source) {
  if (looks_like_prompt_list(text))
    warn(fmt::format("{} has prompts in JSON, which are taken as they are; rename it to .jsonl, so that they are read",
                     source.prompt ? "the text of -p" : source.file));
}

std::string formatted_prompt(const std::string& format, const std::string& prompt) {
  return replaced(replaced(format, "\\n", "\n"), "{}", prompt);
}

}  // namespace yamata
