#include "launch/program/options/flag_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cxxopts.hpp>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "launch/program/options/nearest_word.hpp"
#include "node/error.hpp"
#include "node/read_number.hpp"

namespace yamata {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

UsageError unknown_flag(const std::string& word, const Flags& flags) {
  if (word.size() > 1 && is_digit(word[1]))
    return UsageError(fmt::format("'{}' stands where a flag{} is expected; 'yamata {} --help' lists them", word,
                                  flags.takes_words() ? " or a number from 0 on" : "", flags.command()));
  const std::string meant = did_you_mean(word, flags.listed());
  if (flags.takes_words() && meant.empty())
    return UsageError(fmt::format("'{}' is not a flag; write yamata {} {}; --help lists the flags", word, flags.command(), flags.words()));
  return UsageError(fmt::format("'{}' is not a flag;{} 'yamata {} --help' lists them", word, meant, flags.command()));
}

UsageError takes_no_value(const std::string& word, const std::string& flag) {
  return UsageError(fmt::format("'{}': {} takes no value; write it alone, or leave it out", word, flag));
}

/// Refuses notations that would be misread: long flags with one dash, '=' after a short one, and a value for a flag that takes none.
void refuse_other_notations(const std::string& word, const Flags& flags) {
  const std::size_t equals = word.find('=');
  const bool is_long = word.starts_with("--");
  if (is_long || equals == 2) {
    const std::string flag = word.substr(0, equals);
    const Flag* known = equals != std::string::npos ? flags.find(flag) : nullptr;
    if (known && known->kind == FlagKind::kSwitch) throw takes_no_value(word, flag);
    if (is_long) return;
    if (known) throw UsageError(fmt::format("'{}': write '{} {}', without '='", word, flag, word.substr(3)));
    if (word[0] == '-' && is_letter(word[1])) throw unknown_flag(flag, flags);
  }
  if (word.size() < 3 || word[0] != '-' || !is_letter(word[1]) || !is_letter(word[2]) || flags.find(word)) return;
  if (flags.find("-" + word.substr(0, equals)))
    throw UsageError(fmt::format("'{}' is not a flag; long flags have two dashes: -{}", word, word));
  throw unknown_flag(word, flags);
}

/// Refuses flags with a dash of typography, as on web pages, for a hyphen. Other words may begin with one.
void refuse_other_dashes(const std::string& word, const Flags& flags) {
  static const std::vector<std::string> kDashes{"-", "\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2015", "\u2212"};
  std::string_view name = word;
  for (auto dash = kDashes.begin(); dash != kDashes.end();) {
    dash = std::ranges::find_if(kDashes, [&](const std::string& d) { return name.starts_with(d); });
    if (dash != kDashes.end()) name.remove_prefix(dash->size());
  }
  if (word.find_first_not_of('-') == word.size() - name.size()) return;
  const std::string rest(name), bare = rest.substr(0, rest.find('='));
  const std::string dashes = flags.find("--" + bare) ? "--" : "-";
  if (flags.find(dashes + bare)) throw UsageError(fmt::format("'{}' begins with a dash that is no hyphen; write {}", word, dashes + rest));
}

/// Why a number cannot be read as the number that a flag takes.
std::string why_no_number(const std::string& value) {
  if (value.empty()) return "is not a number; is a variable unset?";
  const std::size_t sign = value[0] == '-';
  const bool digits = value.size() > sign && value.find_first_not_of("0123456789", sign) == std::string::npos;
  if (digits) return value[0] == '-' ? "is negative; the flag takes a number from 0 on" : "is too large";
  const double number = std::abs(read_number<double>(value).value_or(NAN));
  if (!std::isfinite(number)) return "is not a number";
  if (number > std::numeric_limits<float>::max()) return "is too large";
  return number > 0 && number < std::numeric_limits<float>::min() ? "is too close to 0" : "is not a whole number";
}

/// Words that belong to no flag. Throws UsageError with the likely cause.
void refuse_word(const std::string& word, const Flags& flags) {
  if (word.ends_with(".gguf")) throw UsageError(fmt::format("'{}' has no flag before it; a model is named with -m {}", word, word));
  if (flags.find("--prompt"))
    throw UsageError(fmt::format("'{}' has no flag before it; a text goes in quotes: -p \"Once upon a time\"", word));
  throw UsageError(fmt::format("'{}' is not a flag; 'yamata {} --help' lists them", word, flags.command()));
}

/// A flag as it stands on the command line, and its value if that is part of the same word.
struct WrittenFlag {
  std::string spelled;
  std::string value;
  bool has_value = false;
};

/// "--flag", "--flag=VALUE", "-f", "-fVALUE" or "-abc".
WrittenFlag split_word(const std::string& word, const Flags& flags) {
  const std::size_t equals = word.find('=');
  if (flags.find(word) || (word.starts_with("--") && equals == std::string::npos)) return {word, ""};
  if (word.starts_with("--")) return {word.substr(0, equals), word.substr(equals + 1), true};
  const bool attached = flags.find(word.substr(0, 2)) && word.size() > 2;
  return attached ? WrittenFlag{word.substr(0, 2), word.substr(2), true} : WrittenFlag{word, ""};
}

/// Appends the flag that begins at `at` by its long name, and its value as a word of its own; `at` is then at the last word of it.
void spell_out(const Flags& flags, const std::vector<std::string>& words, std::size_t& at, std::vector<std::string>& spelled) {
  WrittenFlag written = split_word(words[at], flags);
  const Flag* const flag = flags.find(written.spelled);
  if (!flag) throw unknown_flag(written.spelled, flags);
  spelled.push_back("--" + flag->name);
  if (flag->kind == FlagKind::kSwitch) {
    if (written.has_value) throw takes_no_value(words[at], written.spelled);
    return;
  }
  if (!written.has_value) {
    if (at + 1 == words.size())
      throw UsageError(fmt::format("{} needs a value; 'yamata {} --help' lists the flags", written.spelled, flags.command()));
    written.value = words[++at];
  }
  if (!is_value(flag->kind, written.value))
    throw UsageError(fmt::format("{}: '{}' {}", written.spelled, written.value, why_no_number(written.value)));
  spelled.push_back(written.value);
}

/// The words in the one notation that cxxopts is given. Throws UsageError for what it would refuse.
std::vector<std::string> spelled_out(const Flags& flags, const std::vector<std::string>& words) {
  std::vector<std::string> spelled;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      spelled.insert(spelled.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    if (words[i].size() > 1 && words[i][0] == '-') {
      spell_out(flags, words, i, spelled);
    } else {
      spelled.push_back(words[i]);
    }
  }
  return spelled;
}

/// The flags for cxxopts, which sees every value as a text.
cxxopts::Options for_cxxopts(const Flags& flags) {
  constexpr std::size_t kColumns = 110;
  cxxopts::Options options("yamata " + flags.command(), flags.what());
  options.set_width(kColumns);
  if (flags.takes_words()) options.custom_help(flags.words());
  for (const Flag& flag : flags.all()) {
    const auto value = flag.kind == FlagKind::kSwitch ? cxxopts::value<bool>() : cxxopts::value<std::string>();
    if (!flag.fallback.empty()) value->default_value(flag.fallback);
    const std::string letter = flag.letter().empty() ? "" : flag.letter().substr(1) + ",";
    options.add_option(flag.group, {letter + flag.name, flag.help, value, flag.placeholder});
  }
  return options;
}

}  // namespace

GivenFlags parse_flags(const Flags& flags, std::span<const char* const> arguments) {
  const std::vector<std::string> words(arguments.begin(), arguments.end());
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Flag* const before = i > 0 ? flags.find(words[i - 1]) : nullptr;
    if (before && takes_text(before->kind)) continue;
    refuse_other_dashes(words[i], flags);
    refuse_other_notations(words[i], flags);
  }
  const std::vector<std::string> spelled = spelled_out(flags, words);
  std::vector<const char*> argv{"yamata"};
  for (const std::string& word : spelled) argv.push_back(word.c_str());
  const cxxopts::ParseResult result = for_cxxopts(flags).parse(static_cast<int>(argv.size()), argv.data());
  GivenFlags given(flags);
  for (const cxxopts::KeyValue& argument : result.arguments()) given.add(*flags.find("--" + argument.key()), argument.value());
  for (const std::string& word : result.unmatched()) given.add_word(word);
  if (!given.words().empty() && !flags.takes_words()) refuse_word(given.words()[0], flags);
  return given;
}

std::string help_of(const Flags& flags) { return for_cxxopts(flags).help(flags.listed_groups()); }

void require_file_names(const Flags& flags, const GivenFlags& given) {
  for (const Flag& flag : flags.all()) {
    if (!takes_files(flag.kind)) continue;
    const char* const what = flag.kind == FlagKind::kFolder ? "folder" : "file";
    const std::string shown = flag.letter().empty() ? flag.shown() : flag.letter();
    for (const std::string& value : given.all(flag.name)) {
      if (value.empty()) throw UsageError(fmt::format("{} needs a {} name", shown, what));
      if (flag.kind == FlagKind::kFiles && std::ranges::count(split_list(value), "") > 0)
        throw UsageError(fmt::format("{} has an empty {} name beside a comma; write A,B, without spaces", shown, what));
    }
  }
}

}  // namespace yamata
