#pragma once
// Files with prompts: JSON Lines.
#include <string>
#include <vector>

#include "launch/program/options/options.hpp"

namespace yamata {

/// The prompts of a .jsonl file, one per line: the line's "prompt", its "text", the first of its "turns" (MT-bench), its "question"
/// (GSM8K), or its "instruction" and, on the next line, its "input" (Alpaca). Empty lines are skipped.
/// `file`: the file's name in errors. `categories`: only lines with one of these as their "category"; empty: all lines.
/// Throws ModelError, naming the line, if a line has none of these texts; UsageError if no line has one of the categories.
std::vector<std::string> read_prompt_list(const std::string& jsonl, const std::string& file,
                                          const std::vector<std::string>& categories = {});

/// Whether the first line that is not empty is such a line: the text may be a list whose file has another name.
bool looks_like_prompt_list(const std::string& text);
/// Prints a warning, in one line, if the text of `source` looks like such a list. It is used all the same.
void warn_of_prompt_list(const std::string& text, const TextSource& source);

/// The template for prompts with {} replaced by `prompt`; backslash and n in the template are a new line.
std::string formatted_prompt(const std::string& format, const std::string& prompt);

}  // namespace yamata
