// How the words of a command line become flags and their values.
#include "launch/program/options/flag_parser.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "node/error.hpp"

namespace yamata::test {
namespace {

Flags some_flags(std::string words = "") {
  Flags flags("try", "Tries flags.", std::move(words));
  const auto add = flags.group("Test");
  add("-n, --number", "A number", FlagKind::kInt, "N", "7");
  add("-s, --seed", "A large number", FlagKind::kUint64, "SEED");
  add("-pa, --p-accept", "A share", FlagKind::kFloat, "P");
  add("-w, --word, --other-word", "A word", FlagKind::kWord, "WORD");
  add("--slow", "Words", FlagKind::kWords, "A=B");
  add("-p, --prompt", "A text", FlagKind::kText, "TEXT");
  add("-f, --file", "Files", FlagKind::kFiles, "FILE");
  add("--to", "A folder", FlagKind::kFolder, "FOLDER");
  add("-q, --quiet", "Nothing follows");
  return flags;
}

GivenFlags parse(const std::vector<const char*>& words, const Flags& flags = some_flags()) { return parse_flags(flags, words); }

/// The error of these words.
std::string fault(const std::vector<const char*>& words, const Flags& flags = some_flags()) {
  try {
    require_file_names(flags, parse_flags(flags, words));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(FlagParser, Notations_areThoseOfOtherPrograms) {
  for (const std::vector<const char*>& words :
       {std::vector{"-n", "5"}, {"-n5"}, {"--number", "5"}, {"--number=5"}, {"-n", "3", "--number", "5"}, {"-n", "0x5"}})
    EXPECT_EQ(parse(words).number<int>("number"), 5) << words[0];
  EXPECT_EQ(parse({"-pa", "0.5"}).number<float>("p-accept"), 0.5f);
  EXPECT_EQ(parse({"--other-word", "x"}).text("word"), "x");
  EXPECT_EQ(parse({"--word="}).text("word"), "");
  EXPECT_EQ(parse({"-s", "18446744073709551615"}).number<std::uint64_t>("seed"), UINT64_MAX);
}

TEST(FlagParser, FlagsThatAreNotGiven_haveTheirDefault) {
  const GivenFlags given = parse({"-q"});
  EXPECT_EQ(given.number<int>("number"), 7);
  EXPECT_EQ(given.joined("number"), "7");
  EXPECT_EQ(given.text("word"), "");
  EXPECT_TRUE(given.given("quiet"));
  EXPECT_FALSE(given.given("number"));
  EXPECT_FALSE(given.given("no-such-flag"));
}

TEST(FlagParser, RepeatedValues_areAllKept) {
  const GivenFlags given = parse({"--slow", "1=2,2=3", "--slow", "3=4,"});
  EXPECT_EQ(given.all("slow"), (std::vector<std::string>{"1=2,2=3", "3=4,"}));
  EXPECT_EQ(given.list("slow"), (std::vector<std::string>{"1=2", "2=3", "3=4"}));
  EXPECT_EQ(given.joined("slow"), "1=2,2=3,3=4,");
}

TEST(FlagParser, TextsAndFiles_areTakenAsTheyAre) {
  for (const char* text : {"-np", "--prompt", "-q", "–n", "-temp", "-n=5", "--", ""}) EXPECT_EQ(parse({"-p", text}).text("prompt"), text);
  EXPECT_EQ(parse({"-f", "-temp"}).text("file"), "-temp");
  EXPECT_EQ(fault({"-w", "-temp"}).substr(0, 25), "'-temp' is not a flag; 'y");
}

TEST(FlagParser, Words_areRefusedUnlessTheCommandTakesThem) {
  EXPECT_EQ(parse({"a", "-q", "--", "-b"}, some_flags("A B")).words(), (std::vector<std::string>{"a", "-b"}));
  EXPECT_EQ(fault({"-q", "hello"}), "'hello' has no flag before it; a text goes in quotes: -p \"Once upon a time\"");
}

TEST(FlagParser, Faults_nameTheFlagAsItWasWritten) {
  EXPECT_EQ(fault({"-n", "x"}), "-n: 'x' is not a number");
  EXPECT_EQ(fault({"--number=0.5"}), "--number: '0.5' is not a whole number");
  EXPECT_EQ(fault({"-s", "-1"}), "-s: '-1' is negative; the flag takes a number from 0 on");
  EXPECT_EQ(fault({"-pa", "1e39"}), "-pa: '1e39' is too large");
  EXPECT_EQ(fault({"-pa"}), "-pa needs a value; 'yamata try --help' lists the flags");
  EXPECT_EQ(fault({"--quiet=yes"}), "'--quiet=yes': --quiet takes no value; write it alone, or leave it out");
  EXPECT_EQ(fault({"-n=5"}), "'-n=5': write '-n 5', without '='");
  EXPECT_EQ(fault({"-number", "5"}), "'-number' is not a flag; long flags have two dashes: --number");
  EXPECT_EQ(fault({"–n", "5"}), "'–n' begins with a dash that is no hyphen; write -n");
  EXPECT_EQ(fault({"--numbr", "5"}), "'--numbr' is not a flag; did you mean --number? 'yamata try --help' lists them");
  EXPECT_EQ(fault({"--model", "a"}, some_flags("A B")), "'--model' is not a flag; write yamata try A B; --help lists the flags");
  EXPECT_EQ(fault({"-12"}), "'-12' stands where a flag is expected; 'yamata try --help' lists them");
  EXPECT_EQ(fault({"-f", ""}), "-f needs a file name");
  EXPECT_EQ(fault({"-f", "a,,b"}), "-f has an empty file name beside a comma; write A,B, without spaces");
  EXPECT_EQ(fault({"--to", ""}), "--to needs a folder name");
}

TEST(FlagHelp, Lines_areWrappedAndUnlistedFlagsLeftOut) {
  Flags flags("try", "Tries flags.");
  flags.group("Machine")("--units", std::string(75, 'x') + " " + std::string(10, 'y') + " z", FlagKind::kWord, "UNITS", "auto");
  flags.group(kUnlistedGroup)("--secret", "Of no use");
  flags.group("General")("-h, --help", "Print this help");
  flags.group("Machine")("--a-flag-with-a-very-long-name-indeed", "Long", FlagKind::kInt, "N", "1");
  EXPECT_EQ(help_of(flags), "Tries flags.\nUsage:\n  yamata try [OPTION...]\n\n General options:\n  -h, --help  Print this help\n\n" +
                                (" Machine options:\n      --units UNITS             " + std::string(75, 'x')) + " \n" +
                                std::string(32, ' ') + std::string(10, 'y') + " z (default: auto)\n" +
                                "      --a-flag-with-a-very-long-name-indeed N\n" + std::string(32, ' ') + "Long (default: 1)\n");
  EXPECT_EQ(flags.listed(), (std::vector<std::string>{"-h", "--help", "--units", "--a-flag-with-a-very-long-name-indeed"}));
}

}  // namespace
}  // namespace yamata::test
