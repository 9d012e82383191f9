#include "launch/program/command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"
#include "launch/program/options/nearest_word.hpp"
#include "launch/program/output/version.hpp"
#include "node/error.hpp"
#include "node/read_number.hpp"

namespace yamata {
namespace {

constexpr const char* kCommands = R"(yamata: one large language model across the machines you have

usage: yamata COMMAND [flags]            one machine
       mpirun ... yamata COMMAND [flags] several: one rank per machine

commands
  run         generate text from a prompt
  perplexity  measure how well the model predicts a text
  acceptance  measure how often each guess source is right
  tokenize    print the token ids of a text
  inspect     show the contents of a model file, and what each rank of a split would hold
  bench       measure how fast a model runs, test by test
  profile     measure how fast this machine could be, and how close a model comes to that
  plan        predict the fastest layout of given machines
  quantize    convert a model file to another format, such as Q4_K_M
  features    write hidden states of a model over a text, to train draft heads
  simulate    predict what more ranks, a faster network or a better draft would give
  --version   print the version and the commit

'yamata COMMAND --help' lists the flags of a command.
)";

/// Replaces flags of two or three letters, such as -ngl, by the long flags that the parser knows.
std::string spelled_out(const std::string& word) {
  for (const auto& [name, spelled] : spelled_short()) {
    if (word == spelled) return "--" + name;
  }
  return word;
}

/// The flags of a command, of all groups.
std::vector<cxxopts::HelpOptionDetails> all_flags(const cxxopts::Options& flags) {
  std::vector<cxxopts::HelpOptionDetails> all;
  for (const std::string& group : flags.groups()) {
    const auto& of_group = flags.group_help(group).options;
    all.insert(all.end(), of_group.begin(), of_group.end());
  }
  return all;
}

/// The flags of a command by their long names; true: it takes no value.
std::map<std::string, bool> long_flags(const cxxopts::Options& flags) {
  std::map<std::string, bool> found;
  for (const cxxopts::HelpOptionDetails& flag : all_flags(flags)) {
    for (const std::string& name : flag.l) found[name] = flag.is_boolean;
  }
  return found;
}

/// The groups of flags that --help shows, in the order in which a new user needs them.
std::vector<std::string> listed_groups(const cxxopts::Options& flags) {
  static const std::vector<std::string> kOrder{
      "General",         "Text",     "Features", "Test",    "Profile", "Job", "Machines and network", "Sampling", "Context", "Draft",
      kSpeculationGroup, "Baseline", "Cluster",  "Machine", "Output"};
  std::vector<std::string> groups = flags.groups();
  std::erase(groups, kUnlistedGroup);
  std::ranges::stable_sort(groups, {}, [](const std::string& group) { return std::ranges::find(kOrder, group) - kOrder.begin(); });
  return groups;
}

/// The listed flags as they may be written.
std::vector<std::string> written_flags(const cxxopts::Options& flags) {
  std::vector<std::string> all;
  for (const std::string& group : listed_groups(flags)) {
    for (const cxxopts::HelpOptionDetails& flag : flags.group_help(group).options) {
      if (!flag.s.empty()) all.push_back("-" + flag.s);
      for (const std::string& name : flag.l) all.insert(all.end(), {"--" + name, shown_flag(name)});
    }
  }
  return all;
}

UsageError unknown_flag(const std::string& word, const std::string& command, const cxxopts::Options& flags) {
  if (word.size() > 1 && std::isdigit(static_cast<unsigned char>(word[1])))
    return UsageError(fmt::format("'{}' stands where a flag{} is expected; 'yamata {} --help' lists them", word,
                                  command == "quantize" ? " or a number from 0 on" : "", command));
  const std::string name = word.starts_with("--") ? word.substr(2) : word;
  const std::string also = spelled_short().contains(name) ? fmt::format(" ({})", shown_flag(name)) : "";
  return UsageError(
      fmt::format("'{}'{} is not a flag;{} 'yamata {} --help' lists them", word, also, did_you_mean(word, written_flags(flags)), command));
}

UsageError takes_no_value(const std::string& word, const std::string& flag) {
  return UsageError(fmt::format("'{}': {} takes no value; write it alone, or leave it out", word, flag));
}

/// Refuses '=' after a flag of one letter.
[[noreturn]] void refuse_equals(const std::string& word, const std::string& command, const cxxopts::Options& flags) {
  const std::string flag = word.substr(0, 2);
  for (const cxxopts::HelpOptionDetails& known : all_flags(flags)) {
    if (known.s != flag.substr(1)) continue;
    if (known.is_boolean) throw takes_no_value(word, flag);
    throw UsageError(fmt::format("'{}': write '{} {}', without '='", word, flag, word.substr(3)));
  }
  throw unknown_flag(flag, command, flags);
}

/// Refuses notations that would be misread: long flags with one dash, '=' after a short one, and a value for a flag that takes none.
void refuse_other_notations(const std::string& word, const std::string& command, const cxxopts::Options& flags,
                            const std::map<std::string, bool>& known) {
  const std::size_t equals = word.find('=');
  if (word.starts_with("--") && equals != std::string::npos) {
    const auto flag = known.find(word.substr(2, equals - 2));
    if (flag != known.end() && flag->second) throw takes_no_value(word, "--" + flag->first);
    return;
  }
  if (word.size() < 3 || word[0] != '-' || !std::isalpha(static_cast<unsigned char>(word[1])) || spelled_out(word) != word) return;
  if (equals == 2) refuse_equals(word, command, flags);
  if (!std::isalpha(static_cast<unsigned char>(word[2]))) return;
  if (known.contains(word.substr(1, equals - 1)))
    throw UsageError(fmt::format("'{}' is not a flag; long flags have two dashes: -{}", word, word));
  throw unknown_flag(word, command, flags);
}

/// Refuses flags with a dash of typography, as on web pages, for a hyphen. Other words may begin with one.
void refuse_other_dashes(const std::string& word, const std::map<std::string, bool>& known, const cxxopts::Options& flags) {
  static const std::vector<std::string> kDashes{"-", "\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2015", "\u2212"};
  std::string_view name = word;
  for (auto dash = kDashes.begin(); dash != kDashes.end();) {
    dash = std::ranges::find_if(kDashes, [&](const std::string& d) { return name.starts_with(d); });
    if (dash != kDashes.end()) name.remove_prefix(dash->size());
  }
  const std::string rest(name), bare = rest.substr(0, rest.find('='));
  if (word.find_first_not_of('-') == word.size() - name.size()) return;
  const bool is_long = known.contains(bare);
  const std::string meant = (is_long ? "--" : "-") + rest;
  if (is_long || std::ranges::count(written_flags(flags), "-" + bare) > 0)
    throw UsageError(fmt::format("'{}' begins with a dash that is no hyphen; write {}", word, meant));
}

/// Whether the word after this one is a text, whatever it looks like.
bool takes_text(const std::string& word) {
  static const std::set<std::string> kTakesText{
      "-p",         "--prompt", "-f",    "--file",  "-m",    "--model", "-md",       "--model-draft", "--heads",        "--hostfile",
      "--profiles", "--json",   "--csv", "--trace", "--pre", "--from",  "--imatrix", "--tree",        "--suffix-store", "--prompt-format"};
  return kTakesText.contains(word);
}

/// A value that the parser could not read, and its flag as it was written.
struct Misfit {
  std::string flag, value;
};

/// The value that a complaint is about. A flag that takes a text cannot be meant: it takes any.
std::optional<Misfit> misfit(const std::string& complaint, int argc, const char* const* argv) {
  const auto meant = [&](const std::string& value) { return complaint.find(fmt::format("'{}'", value)) != std::string::npos; };
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i], before = argv[i - 1];
    const std::size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    if (equals != std::string::npos && meant(word.substr(equals + 1))) return Misfit{word.substr(0, equals), word.substr(equals + 1)};
    if (meant(word) && before[0] == '-' && !takes_text(before)) return Misfit{before, word};
  }
  return std::nullopt;
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
void refuse_words(const std::string& word, const std::string& command, const std::map<std::string, bool>& known) {
  if (word.ends_with(".gguf")) throw UsageError(fmt::format("'{}' has no flag before it; a model is named with -m {}", word, word));
  if (known.contains("prompt"))
    throw UsageError(fmt::format("'{}' has no flag before it; a text goes in quotes: -p \"Once upon a time\"", word));
  throw UsageError(fmt::format("'{}' is not a flag; 'yamata {} --help' lists them", word, command));
}

/// A command: its flags, and the function that reads their values.
struct Command {
  cxxopts::Options (*flags)();
  void (*read)(const cxxopts::ParseResult& result, CommandLine& line);
  bool takes_words = false;  ///< arguments that are not flags
};

template <auto kRead>
void read_into(const cxxopts::ParseResult& result, CommandLine& line) {
  line.options = kRead(result);
}

const Command& find_command(const std::string& name) {
  static const std::map<std::string, Command> kKnown{{"run", {run_flags, read_into<read_run>}},
                                                     {"perplexity", {perplexity_flags, read_into<read_perplexity>}},
                                                     {"acceptance", {acceptance_flags, read_into<read_acceptance>}},
                                                     {"tokenize", {tokenize_flags, read_into<read_tokenize>}},
                                                     {"inspect", {inspect_flags, read_into<read_inspect>}},
                                                     {"bench", {bench_flags, read_into<read_bench>}},
                                                     {"profile", {profile_flags, read_into<read_profile>}},
                                                     {"plan", {plan_flags, read_into<read_plan>}},
                                                     {"quantize", {quantize_flags, read_into<read_quantize>, true}},
                                                     {"features", {features_flags, read_into<read_features>}},
                                                     {"simulate", {simulate_flags, read_into<read_simulation>}}};
  const auto found = kKnown.find(name);
  if (found == kKnown.end() && name.starts_with('-'))
    throw UsageError(
        fmt::format("'{}' stands where a command is expected, such as 'yamata run {} …'; 'yamata --help' lists them", name, name));
  if (found == kKnown.end()) {
    std::vector<std::string> all;
    for (const auto& [known, command] : kKnown) all.push_back(known);
    throw UsageError(fmt::format("unknown command '{}';{} 'yamata --help' lists them", name, did_you_mean(name, all)));
  }
  return found->second;
}

/// Reformats an error of cxxopts: one line, with this program's quotes.
std::string plain(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool quote = text.compare(i, 3, "\xE2\x80\x98") == 0 || text.compare(i, 3, "\xE2\x80\x99") == 0;
    out += quote ? '\'' : text[i];
    if (quote) i += 2;
  }
  return out;
}

/// What an error of cxxopts has in quotes: a flag, here without its value.
std::string quoted(const std::string& text) {
  const std::string line = plain(text);
  const std::size_t begin = line.find('\'') + 1;
  return line.substr(begin, line.find_first_of("'=", begin) - begin);
}

/// Throws UsageError if a flag that takes a file or folder has an empty name.
void require_file_names(const cxxopts::Options& flags, const cxxopts::ParseResult& result) {
  std::set<std::string> empty, gaps;
  for (const auto& argument : result.arguments()) {
    if (argument.value().empty()) empty.insert(argument.key());
    if (std::ranges::count(split_list(argument.value()), "") > 0) gaps.insert(argument.key());
  }
  for (const cxxopts::HelpOptionDetails& flag : all_flags(flags)) {
    const char* what = flag.arg_help.starts_with("FILE") ? "file" : flag.arg_help == "FOLDER" ? "folder" : nullptr;
    const std::string shown = flag.s.empty() ? shown_flag(flag.l.front()) : "-" + flag.s;
    if (what && empty.contains(flag.l.front())) throw UsageError(fmt::format("{} needs a {} name", shown, what));
    if (what && flag.is_container && gaps.contains(flag.l.front()))
      throw UsageError(fmt::format("{} has an empty {} name beside a comma; write A,B, without spaces", shown, what));
  }
}

/// The arguments in the form that the parser expects. Throws UsageError for other notations.
std::vector<std::string> spelled_out(int argc, const char* const* argv, const cxxopts::Options& flags) {
  const std::map<std::string, bool> known = long_flags(flags);
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const bool text = takes_text(argv[i - 1]);
    if (!text) refuse_other_dashes(argv[i], known, flags);
    if (!text) refuse_other_notations(argv[i], argv[1], flags, known);
    words.push_back(text ? argv[i] : spelled_out(argv[i]));
  }
  return words;
}

/// Replaces the parser's names of flags by flags as they are written.
std::string as_written(std::string complaint, int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string known = spelled_out(argv[i]);
    if (known == argv[i]) continue;
    const std::string quoted = fmt::format("'{}'", known.substr(2));
    const std::size_t at = complaint.find(quoted);
    if (at != std::string::npos) complaint.replace(at, quoted.size(), fmt::format("'{}'", argv[i]));
  }
  constexpr std::string_view kBegin = "Option '";
  if (complaint.starts_with(kBegin) && complaint.find('-') != kBegin.size())
    complaint.insert(kBegin.size(), complaint.find('\'', kBegin.size()) == kBegin.size() + 1 ? "-" : "--");
  return complaint;
}

/// The parser's error as one line in this program's format.
UsageError plain_error(const std::string& what, const std::string& command, int argc, const char* const* argv) {
  const std::string complaint = as_written(plain(what), argc, argv);
  const bool unreadable = complaint.starts_with("Argument ") && complaint.find(" failed to parse") != std::string::npos;
  if (const auto wrong = unreadable ? misfit(complaint, argc, argv) : std::nullopt)
    return UsageError(fmt::format("{}: '{}' {}", wrong->flag, wrong->value, why_no_number(wrong->value)));
  constexpr std::string_view kMissing = " is missing an argument";
  if (complaint.ends_with(kMissing))
    return UsageError(fmt::format("{} needs a value; 'yamata {} --help' lists the flags", quoted(complaint), command));
  return UsageError(fmt::format("{}; 'yamata {} --help' lists the flags", complaint, command));
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  const std::string name = argc > 1 ? argv[1] : "--help";
  if (name == "help" && argc > 2) {
    const char* const words[] = {argv[0], argv[2], "--help"};
    return parse_command_line(3, words);
  }
  if (name == "--help" || name == "-h" || name == "help") {
    line.text = kCommands;
    return line;
  }
  if (name == "--version") {
    line.text = fmt::format("yamata {} (commit {})\n", version(), commit());
    return line;
  }
  const Command& command = find_command(name);
  cxxopts::Options flags = command.flags();
  try {
    const std::vector<std::string> words = spelled_out(argc, argv, flags);
    std::vector<const char*> spelled;
    for (const std::string& word : words) spelled.push_back(word.c_str());
    const cxxopts::ParseResult result = flags.parse(argc - 1, spelled.data());
    if (!result.unmatched().empty() && !command.takes_words) refuse_words(result.unmatched()[0], name, long_flags(flags));
    if (result.count("help")) {
      line.text = flags.help(listed_groups(flags));
      return line;
    }
    require_file_names(flags, result);
    command.read(result, line);
    if (auto* plan = std::get_if<PlanOptions>(&line.options)) plan->program = argv[0];
  } catch (const cxxopts::exceptions::no_such_option& e) {
    const std::string word = quoted(e.what());
    throw unknown_flag((word.size() == 1 ? "-" : "--") + word, name, flags);
  } catch (const cxxopts::exceptions::invalid_option_syntax& e) {
    throw unknown_flag(quoted(e.what()), name, flags);
  } catch (const cxxopts::exceptions::exception& e) {
    throw plain_error(e.what(), name, argc, argv);
  }
  return line;
}

std::vector<JobOptions> jobs_of(const CommandLine& line) {
  if (const auto* run = std::get_if<RunOptions>(&line.options)) return {run->job};
  if (const auto* perplexity = std::get_if<PerplexityOptions>(&line.options)) return {perplexity->job};
  if (const auto* acceptance = std::get_if<AcceptanceOptions>(&line.options)) return {acceptance->job};
  if (const auto* features = std::get_if<FeaturesOptions>(&line.options)) return {features->job};
  if (const auto* bench = std::get_if<BenchOptions>(&line.options)) return jobs_of(*bench);
  return {};
}

}  // namespace yamata
