#pragma once
// Guesses which word was meant by one that is not known.
#include <string>
#include <vector>

namespace yamata {

/// The first of the known words that differs least from this one, apart from dashes in front; only few letters may differ. Else the
/// shortest one that begins with it. Empty: none.
std::string nearest_word(const std::string& word, const std::vector<std::string>& known);

/// " did you mean WORD?" with the nearest known word, for the end of an error line; empty: none.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

}  // namespace yamata
