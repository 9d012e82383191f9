#pragma once
// Texts that are not UTF-8.
#include <string>
#include <string_view>

#include "launch/program/options/options.hpp"

namespace yamata {

/// What is wrong with the text and what may help, to follow its name: "is not UTF-8 from byte 3 on (...)". Empty: it is UTF-8.
std::string encoding_fault(std::string_view text);

/// Prints a warning, in one line, if the text of `source` is not UTF-8 or begins with a byte-order mark. It is used all the same.
void warn_unless_utf8(std::string_view text, const TextSource& source);

}  // namespace yamata
