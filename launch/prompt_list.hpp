#pragma once
// Files of prompts: JSON Lines.
#include <string>
#include <vector>

namespace yamata {

/// The prompts of a .jsonl, one per line: the line's "prompt", its "text", or the first of its "turns". Empty lines are skipped.
/// `file` is what the error calls it. Throws UsageError, naming the line, where a line has none of these.
std::vector<std::string> read_prompt_list(const std::string& jsonl, const std::string& file);

}  // namespace yamata
