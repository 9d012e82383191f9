#pragma once
// Files with prompts: JSON Lines.
#include <string>
#include <vector>

namespace yamata {

/// The prompts of a .jsonl file, one per line: the line's "prompt", its "text", or the first of its "turns". Empty lines are skipped.
/// `file`: the file's name in errors. Throws UsageError, naming the line, if a line has none of these.
std::vector<std::string> read_prompt_list(const std::string& jsonl, const std::string& file);

/// Whether the first line that is not empty is such a line: the text may be a list whose file has another name.
bool looks_like_prompt_list(const std::string& text);

/// The template for prompts with {} replaced by `prompt`; backslash and n in the template are a new line.
std::string formatted_prompt(const std::string& format, const std::string& prompt);

}  // namespace yamata
