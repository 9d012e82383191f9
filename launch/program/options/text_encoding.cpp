#include "launch/program/options/text_encoding.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "launch/program/output/warnings.hpp"
#include "src/tokenizer/utf8.hpp"

namespace yamata {
namespace {

std::string name_of(const TextSource& source) {
  if (source.prompt) return "the text of -p";
  return source.file == "-" ? "standard input" : source.file;
}

}  // namespace

std::string encoding_fault(std::string_view text) {
  const std::size_t at = valid_utf8_bytes(text);
  if (at == text.size()) return "";
  const bool cut = at + utf8_lead_length(static_cast<std::uint8_t>(text[at])) > text.size();
  return cut && continues_utf8(text.substr(at + 1))
             ? fmt::format("ends within a UTF-8 character, which begins at byte {} (is it cut?)", at)
             : fmt::format("is not UTF-8 from byte {} on (iconv -f ENCODING -t UTF-8 converts it)", at);
}

void warn_unless_utf8(std::string_view text, const TextSource& source) {
  if (const std::string fault = encoding_fault(text); !fault.empty())
    warn(fmt::format("{} {}; its bytes are used as they are", name_of(source), fault));
  if (text.starts_with("\xEF\xBB\xBF"))
    warn(fmt::format("{} begins with a byte-order mark, which is a part of the text (tail -c +4 FILE leaves it out)", name_of(source)));
}

}  // namespace yamata
