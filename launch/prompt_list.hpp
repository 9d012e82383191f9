#pragma once
// Files with prompts: JSON Lines.
#include <string>
#include <vector>

namespace yamata {

/// The prompts of a .jsonl file, one per line: the line's "prompt", its "text", or the first of its "turns". Empty lines are skipped.
/// `file`: the file's name in errors. Throws UsageError, naming the line, if a line has none of these.
std::vector<std::string> read_prompt_list(const std::string& jsonl, const std::string& file);

}  // namespace yamata
