// Flags that are read but make no sense: refused, or named in a warning.
#include <fmt/format.h>

#include <algorithm>

#include "tests/launch/parsed_flags.hpp"

namespace yamata::test {
namespace {

Lines idle_in_simulation(const Arguments& more) {
  return std::get<SimulationOptions>(parse(joined({"simulate"}, more)).options).idle_flags;
}

Lines idle_in_acceptance(const Arguments& more) {
  return std::get<AcceptanceOptions>(parse(joined({"acceptance", "-m", kModel, "-f", "p.jsonl"}, more)).options).idle_flags;
}

Lines idle_in_features(const Arguments& more) {
  return std::get<FeaturesOptions>(parse(joined({"features", "-m", kModel, "-o", "out"}, more)).options).idle_flags;
}

Lines idle_in_engine(const Arguments& more) {
  return std::get<EngineOptions>(parse(joined({"engine", "-m", kModel}, more)).options).idle_flags;
}

Lines idle_in_plan(const Arguments& more) { return std::get<PlanOptions>(parse(joined({"plan", "-m", kModel}, more)).options).idle_flags; }

TEST(Flags, Batches_areLargerWithAGpu) {
  const auto batch = [](const Arguments& more) {
    return std::get<RunOptions>(parse(joined({"run", "-m", kModel, "-p", "x"}, more)).options).job.cache.batch;
  };
  EXPECT_EQ(batch({}), 64);
  EXPECT_EQ(batch({"--units", "cpu:0+cpu:1"}), 64);
  EXPECT_EQ(batch({"--units", "cuda:0"}), 512);
  EXPECT_EQ(batch({"--units", "cpu+cuda:0"}), 512);
  EXPECT_EQ(batch({"-ngl", "4"}), 512);
  EXPECT_EQ(batch({"--units", "cuda:0", "-b", "7"}), 7);
}

TEST(Flags, AttentionCut_needsUnitsThatShareLayers) {
  const Arguments job{"run", "-m", kModel, "-p", "x", "--attention-cut", "dynamic"};
  EXPECT_NO_THROW(parse(joined(job, {"--units", "cpu:0+cpu:1"})));
  EXPECT_NO_THROW(parse(joined(job, {"--units", "cpu+cuda:0", "-ngl", "0"})));
  expect_refused(joined(job, {"--units", "cpu+cuda:0", "-ngl", "4"}), "--attention-cut must be left out with -ngl");
  expect_refused(joined(job, {"--units", "cpu:0+cpu:1+cuda:0", "-ngl", "auto"}), "--attention-cut must be left out with -ngl");
}

TEST(Flags, SharesOfAProfile_areRefused) {
  expect_refused({"profile", "-m", kModel, "--units", "cpu:0=0.5+cpu:1=0.5"}, "--units: profile measures the shares");
  EXPECT_NO_THROW(parse({"profile", "-m", kModel, "--units", "cpu:0+cpu:1"}));
}

TEST(IdleFlags, OfGuessing_areNamedWhereNothingGuesses) {
  expect_lines(idle_in_run({}), {});
  expect_lines(idle_in_run({"--strategy", "iterative"}), {});
  expect_lines(idle_in_run({"--no-lookup"}), {});
  expect_lines(idle_in_run({"-pa", "0.3"}), {"-pa does nothing without a draft model"});
  expect_lines(idle_in_run({"--drafters", "3"}), {"--drafters does nothing without a draft model"});
  const Lines iterative = idle_in_run({"--strategy", "iterative", "--policy", "chain", "--no-tree-reuse", "--draft-units", "cpu"});
  expect_lines(
      iterative,
      {"--policy, --draft-units, --no-tree-reuse do nothing with --strategy iterative, which does not guess; leave --strategy out"});
  EXPECT_EQ(iterative.at(0).find("-md"), std::string::npos) << "a draft would not guess either";
  expect_lines(idle_in_run({"--strategy", "iterative", "-md", kDraft, "--typical-delta", "0.2"}),
               {"-md, --typical-delta do nothing with --strategy iterative"});
}

TEST(IdleFlags, TextsAtATime_areNamedWhereNoLayoutIsChosen) {
  expect_lines(idle_in_engine({"--requests", "4"}), {});
  expect_lines(idle_in_engine({"--requests", "4", "--layer-split", "measure"}), {});
  expect_lines(idle_in_engine({"--layer-split", "bytes"}), {});
  expect_lines(idle_in_engine({"--requests", "4", "--layer-split", "bytes"}), {"--requests does nothing with --layer-split bytes"});
  expect_lines(idle_in_engine({"--requests", "4", "--layer-split", "0.5,0.5"}), {"--requests does nothing with --layer-split"});
  expect_lines(idle_in_engine({"--requests", "4", "--heads", kDraftHeads}), {"--requests does nothing with draft heads"});
}

TEST(IdleFlags, OfOtherSourcesAndPolicies_areNamed) {
  expect_lines(idle_in_run({"--heads-kind", "medusa", "--heads-quant", "q4_0", "-md", kDraft}),
               {"--heads-kind does nothing without --heads", "--heads-quant does nothing without draft heads"});
  expect_lines(idle_in_run({"--mtp", "--heads-quant", "q4_0"}), {});
  expect_lines(idle_in_run({"--mtp", "--heads-kind", "medusa"}), {"--heads-kind does nothing without --heads"});
  expect_lines(idle_in_run({"--heads", kDraftHeads, "--heads-kind", "dgf", "--draft-units", "cpu"}), {});
  expect_lines(idle_in_run({"--draft-units", "cpu"}), {"--draft-units does nothing without a draft model or heads"});
  expect_lines(idle_in_run({"--typical-epsilon", "0.1", "--typical-delta", "0.2"}),
               {"--typical-epsilon, --typical-delta do nothing without --acceptance typical"});
  expect_lines(idle_in_run({"--temp", "1", "--acceptance", "typical", "--typical-epsilon", "0.1"}), {});
  expect_lines(idle_in_run({"--tree-depth", "3", "--tree-children", "2"}), {"--tree-depth, --tree-children do nothing with this policy"});
  expect_lines(idle_in_run({"--policy", "dynamic-tree", "--tree-depth", "3", "--p-min", "0.1"}), {"--p-min does nothing with this policy"});
  expect_lines(idle_in_run({"--preset", "medusa", "--heads", kDraftHeads, "--tree-depth", "3", "--suffix-store", "s"}),
               {"--suffix-store does nothing with this --preset"});
}

TEST(IdleFlags, OfSimulationsAndOfAcceptance_areNamed) {
  expect_lines(idle_in_simulation({"--drafters", "2", "--no-async", "--policy", "chain", "-pa", "0.3"}), {});
  expect_lines(idle_in_simulation({"--draft-units", "cpu", "--tree-depth", "2"}),
               {"--draft-units does nothing in a simulation", "--tree-depth does nothing with this policy"});
  expect_lines(idle_in_simulation({"--strategy", "iterative", "--draft", "3"}), {"--draft does nothing with --strategy iterative"});
  expect_lines(idle_in_acceptance({"--draft", "4"}), {});
  expect_lines(idle_in_acceptance({"--draft-units", "cpu"}), {"--draft-units does nothing without a draft model or heads"});
}

TEST(IdleFlags, OfDrafts_areNamedWhereNoneIsPredicted) {
  expect_lines(idle_in_plan({"--acceptance", "0.9", "--acceptance4", "0.95"}), {"--acceptance, --acceptance4 do nothing without a draft"});
  expect_lines(idle_in_plan({"--acceptance", "0.9", "-md", kDraft}), {});
  expect_lines(idle_in_simulation({"--acceptance", "0.9", "--draft-ms", "10"}), {});
  expect_lines(idle_in_simulation({"--drafters", "0", "--draft-ms", "10", "--over-confidence", "1"}),
               {"--draft-ms, --over-confidence do nothing with --drafters 0"});
  expect_lines(idle_in_simulation({"--strategy", "iterative", "--acceptance", "0.9", "--acceptance4", "0.95"}),
               {"--acceptance, --acceptance4 do nothing with --strategy iterative"});
}

TEST(IdleFlags, OfSampling_areNamedUnderGreedyDecoding) {
  expect_lines(idle_in_run({"-s", "7", "--top-k", "5", "--top-p", "0.5", "--min-p", "0"}),
               {"--top-k, --top-p, --min-p, --seed do nothing with greedy decoding"});
  expect_lines(idle_in_run({"-s", "7", "--top-k", "5", "--temp", "0.5"}), {});
  expect_lines(idle_in_run({"--repeat-last-n", "20"}), {"--repeat-last-n does nothing without a penalty"});
  expect_lines(idle_in_run({"--repeat-last-n", "20", "--repeat-penalty", "1.1"}), {});
  expect_lines(idle_in_acceptance({"-s", "7"}), {"--seed does nothing with greedy decoding"});
  expect_lines(idle_in_features({"-f", "t.txt", "--generate", "8", "-s", "3"}), {"--seed does nothing with greedy decoding"});
}

TEST(IdleFlags, OfFeatures_areNamedWhereNoTextIsContinued) {
  expect_lines(idle_in_features({"-f", "t.txt", "--layers", "2", "--texts", "3"}), {});
  expect_lines(idle_in_features({"-f", "t.txt", "--prompt-tokens", "4"}), {"--prompt-tokens does nothing without --generate"});
  expect_lines(idle_in_features({"-f", "t.jsonl", "--temp", "1", "-s", "3", "--ignore-eos"}),
               {"--temp, --seed, --ignore-eos do nothing without --generate"});
  const Arguments generate{"--generate", "8", "--temp", "1", "-s", "3", "--ignore-eos", "--prompt-tokens", "4"};
  expect_lines(idle_in_features(joined({"-f", "t.txt"}, generate)), {});
  expect_lines(idle_in_features(joined({"-f", "t.jsonl"}, generate)), {"--prompt-tokens does nothing with prompts that are whole"});
}

TEST(IdleFlags, OfNoUse_areNotListed) {
  for (const auto& [command, flags] : std::vector<std::pair<std::string, Lines>>{{"acceptance", {"--strategy", "--suffix-store"}},
                                                                                 {"simulate", {"--suffix-store", "--draft-units"}}}) {
    const std::string help = parse({command, "--help"}).text;
    EXPECT_NE(help.find("--model-draft"), std::string::npos) << help;
    for (const std::string& flag : flags) EXPECT_EQ(help.find(flag), std::string::npos) << command << " " << flag;
  }
  EXPECT_NE(parse({"run", "--help"}).text.find("--suffix-store"), std::string::npos);
}

TEST(Flags, EmptyFileNames_areRefused) {
  const Arguments run{"run", "-m", kModel, "-p", "x"};
  for (const char* flag : {"--json", "--csv", "--trace", "--suffix-store", "--tree", "-md", "--heads"})
    expect_refused(joined(run, {flag, ""}), std::string(flag) + " needs a file name");
  expect_refused(joined(run, {"--json="}), "--json needs a file name");
  expect_refused({"run", "-m", "", "-p", "x"}, "-m needs a file name");
  for (const char* command : {"perplexity", "acceptance"})
    expect_refused({command, "-m", kModel, "-f", "t", "--json", ""}, "--json needs a file");
  for (const char* flag : {"--json", "--csv", "--from"}) expect_refused({"simulate", flag, ""}, std::string(flag) + " needs a file name");
  for (const char* flag : {"--json", "--hostfile", "--from"})
    expect_refused({"plan", "-m", kModel, flag, ""}, std::string(flag) + " needs a file name");
  expect_refused({"plan", "-m", kModel, "--profiles", ""}, "--profiles needs a folder name");
  expect_refused({"profile", "--json", ""}, "--json needs a file name");
  expect_refused({"features", "-m", kModel, "-p", "x", "-o", ""}, "-o needs a file name");
  expect_refused({"quantize", "", "b", "Q4_0"}, "SRC and DST need a file name");
  expect_refused({"quantize", "a", "", "Q4_0"}, "SRC and DST need a file name");
  EXPECT_EQ(std::get<RunOptions>(parse({"run", "-m", kModel, "-p", ""}).options).text.prompt, "");
}

TEST(Flags, TwoTexts_areRefusedByEveryCommand) {
  expect_refused({"features", "-m", kModel, "-p", "x", "-f", "y.jsonl", "-o", "out"}, "both -p and -f");
  for (const char* command : {"run", "tokenize", "perplexity"})
    expect_refused({command, "-m", kModel, "-p", "x", "-f", "y"}, "both -p and -f");
}

TEST(Flags, ShortOnes_areNamedAsTheyAreWritten) {
  expect_refused({"simulate", "-n", "0"}, "-n must be");
  expect_refused({"plan", "-m", kModel, "-n", "0"}, "-n must be");
  expect_refused({"bench", "-m", kModel, "-r", "0"}, "-r must be");
  expect_refused({"profile", "-r", "0"}, "-r must be");
}

TEST(Flags, DecimalsAreReadWhole) {
  expect_refused({"run", "-m", kModel, "-p", "x", "--temp", "0,8"}, "--temp: '0,8' is not a number");
  expect_refused({"run", "-m", kModel, "-p", "x", "--timeout", "5x"}, "--timeout: '5x' is not a number");
  expect_refused({"simulate", "--bandwidth", "1gbit"}, "--bandwidth: '1gbit' is not a number");
  const auto run = std::get<RunOptions>(parse({"run", "-m", kModel, "-p", "x", "--temp", "8e-1", "--timeout", "7.5"}).options);
  EXPECT_EQ(run.sampling.temperature, 0.8f);
  EXPECT_EQ(run.job.timeout, std::chrono::milliseconds(7500));
  EXPECT_EQ(run.job.serving_timeout.count(), 7500);
  const auto serving = parse({"engine", "-m", kModel, "--timeout", "20", "--serving-timeout", "3"});
  EXPECT_EQ(std::get<EngineOptions>(serving.options).job.serving_timeout.count(), 3000);
  EXPECT_EQ(std::get<EngineOptions>(serving.options).job.timeout.count(), 20000);
  expect_refused({"engine", "-m", kModel, "--timeout", "2", "--serving-timeout", "3"}, "--serving-timeout must be between");
}

TEST(Flags, NumbersThatDoNotFit_areRefusedWithTheFlagAndTheReason) {
  const Arguments text{"run", "-m", kModel, "-p", "x"};
  expect_refused(joined(text, {"-s", "-3"}), "-s: '-3' is negative");
  expect_refused(joined(text, {"--seed=-1"}), "--seed: '-1' is negative");
  expect_refused(joined(text, {"-n", "5.5"}), "-n: '5.5' is not a whole number");
  expect_refused(joined(text, {"--temp", "1e50"}), "--temp: '1e50' is too large");
  expect_refused(joined(text, {"--temp", "1e-50"}), "--temp: '1e-50' is too close to 0");
  expect_refused(joined(text, {"-n", "99999999999999"}), "-n: '99999999999999' is too large");
  expect_refused(joined(text, {"--temp", "inf"}), "--temp: 'inf' is not a number");
  expect_refused(joined(text, {"--temp", "nan"}), "--temp: 'nan' is not a number");
  expect_refused(joined(text, {"-n", ""}), "-n: '' is not a number; is a variable unset?");
  expect_refused(joined(text, {"-n", "-"}), "-n: '-' is not a number");
  expect_refused({"run", "-m", kModel, "-p", "hello", "-s", "hello"}, "-s: 'hello' is not a number");
}

TEST(Flags, ValueOfAFlagThatTakesNone_isRefused) {
  expect_refused({"run", "-m", kModel, "-p", "x", "--ignore-eos=false"}, "--ignore-eos takes no value");
  expect_refused({"quantize", "a", "b", "Q4_0", "--allow-requantize=no"}, "--allow-requantize takes no value");
  EXPECT_EQ(std::get<RunOptions>(parse({"run", "-m", kModel, "-p", "--ignore-eos=false"}).options).text.prompt, "--ignore-eos=false");
}

TEST(Flags, LongFlagWithOneDash_isSuggestedOnlyIfItExists) {
  expect_refused({"run", "-m", kModel, "-p", "x", "-temp", "1"}, "long flags have two dashes: --temp");
  expect_refused({"run", "-m", kModel, "-p", "x", "-temp=1"}, "long flags have two dashes: --temp=1");
  expect_refused({"run", "-m", kModel, "-p", "x", "-ngll", "3"},
                 "'-ngll' is not a flag; did you mean -ngl? 'yamata run --help' lists them");
}

TEST(Flags, UnknownFlags_areRefusedWithTheNearest) {
  const auto run = [](const std::string& word) { return Arguments{"run", "-p", "x", word, kModel}; };
  for (const auto& [word, meant] : {std::pair{"--m", "-m"},
                                    {"--modle", "--model"},
                                    {"--md", "-md"},
                                    {"--n-predict", "--predict"},
                                    {"--batch", "--batch-size"},
                                    {"--ctx", "--ctx-size"},
                                    {"--promt", "--prompt"},
                                    {"-promt", "--prompt"},
                                    {"--Model", "--model"}}) {
    expect_refused(run(word), fmt::format("'{}' is not a flag; did you mean {}? 'yamata run --help' lists them", word, meant));
  }
  expect_refused({"run", "--modle=x"}, "'--modle' is not a flag; did you mean --model? ");
  expect_refused({"run", "--m=x"}, "'--m' is not a flag; did you mean -m? ");
  for (const std::string word : {"--fast", "-x", "-zz", "---"})
    expect_refused(run(word), fmt::format("'{}' is not a flag; 'yamata run --help' lists them", word));
  expect_refused({"quantise", "a"}, "unknown command 'quantise'; did you mean quantize? 'yamata --help' lists them");
  expect_refused({"walk"}, "unknown command 'walk'; 'yamata --help' lists them");
}

TEST(Flags, EmptyNamesInAList_areRefused) {
  for (const std::string& list : {kDraft + ",," + kDraft, "," + kDraft, kDraft + ",", std::string(",")}) {
    expect_refused({"run", "-m", kModel, "-p", "x", "-md", list}, "-md has an empty file name beside a comma; write A,B, without spaces");
    expect_refused({"acceptance", "-m", kModel, "-f", "x", "--heads", list}, "--heads has an empty file name beside a comma");
  }
  EXPECT_EQ(std::get<RunOptions>(parse({"run", "-m", "a,,b", "-p", "x"}).options).job.models.target, "a,,b");
}

TEST(Flags, FlagsOfAModel_areRefusedWithoutOne) {
  for (const Arguments& flag :
       {Arguments{"--widths", "1"}, {"--contexts", "8"}, {"--no-repack"}, {"-ctk", "f32"}, {"--units", "cpu:0+cpu:1"}})
    expect_refused(joined({"profile"}, flag), flag.at(0) + " has no effect without a model; name one with -m FILE.gguf");
}

TEST(Flags, WordsWithoutAFlag_areToldTheLikelyOne) {
  expect_refused({"run", "-m", kModel, "-p", "Once", "upon"}, "'upon' has no flag before it; a text goes in quotes");
  expect_refused({"inspect", "model.gguf"}, "named with -m model.gguf");
  expect_refused({"bench", "-m", kModel, "fast"}, "'fast' is not a flag");
  expect_refused({"-m", kModel, "-p", "x"}, "stands where a command is expected");
}

TEST(Flags, Help_beginsWithModelAndTextAndHasPlainTitles) {
  const Arguments all{"run", "perplexity", "acceptance", "tokenize", "inspect", "bench", "profile", "plan", "features", "simulate"};
  for (const std::string& command : all) {
    const std::string help = parse({command, "--help"}).text;
    EXPECT_EQ(help.find("(default: \"\")"), std::string::npos) << help;
    EXPECT_EQ(help.find(") options:"), std::string::npos) << help;
    EXPECT_EQ(help.find(" options:"), help.find("General options:") + 7) << help;
    const std::size_t output = help.find("\n Output options:");
    EXPECT_TRUE(output == std::string::npos || help.rfind(" options:") == output + 8) << help;
  }
  const std::string run = parse({"run", "--help"}).text;
  std::size_t at = 0;
  for (const char* flag : {"-m,", "-p,", "-n,", "--temp ", "-c,", "--model-draft ", "--preset ", "--layer-split ", "--units ", "--json "}) {
    const std::size_t found = run.find(flag, at);
    ASSERT_NE(found, std::string::npos) << flag << " comes too early:\n" << run;
    at = found;
  }
}

TEST(Flags, HelpOfACommand_isShownInBothOrders) { EXPECT_EQ(parse({"help", "run"}).text, parse({"run", "--help"}).text); }

TEST(Flags, TooManyDrafts_areToldTheFlagThatAddedThem) {
  const auto remedy = [](const Arguments& more) {
    return std::get<RunOptions>(parse(joined({"run", "-m", kModel, "-p", "x", "-md", kDraft}, more)).options).fewer_drafts;
  };
  EXPECT_EQ(remedy({"-md", kDraft}), "a single -md");
  EXPECT_EQ(remedy({"--drafters", "2"}), "fewer --drafters");
}

TEST(Flags, WarningsOfARefusedCommand_areNotShown) {
  const TemporaryFolder folder;
  for (const Arguments& arguments : {Arguments{"run", "--drafters", "2"}, {"features", "--ignore-eos", "-o", folder / "states"}}) {
    const Outcome outcome = run(yamata(joined(arguments, {"-m", kModel, "-p", "caf\xE9", "-t", "1", "-c", "2000000000"})));
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.err.find("yamata: a cache of 2000000"), 0u) << outcome.err;
    EXPECT_EQ(outcome.warnings().size(), 0u) << outcome.err;
  }
}

TEST(Flags, ContextOfABenchmark_isShortenedByItsOwnFlags) {
  const Outcome outcome = run(yamata({"bench", "-m", kModel, "-p", "0", "-n", "1", "-d", "1100", "-r", "1", "--no-warmup", "-t", "1"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(outcome.warnings().size(), 1u) << outcome.err;
  EXPECT_NE(outcome.warnings()[0].find("lower -p, -n, -pg or -d"), std::string::npos) << outcome.err;
}

TEST(Flags, DashesThatAreNoHyphens_areToldTheRightForm) {
  const Arguments text{"run", "-m", kModel, "-p", "x"};
  for (const auto& [word, meant] :
       {std::pair{"–n", "-n"}, {"—temp", "--temp"}, {"−−temp=0.8", "--temp=0.8"}, {"–ngl", "-ngl"}, {"-–seed", "--seed"}})
    expect_refused(joined(text, {word, "5"}), fmt::format("'{}' begins with a dash that is no hyphen; write {}", word, meant));
  EXPECT_EQ(std::get<RunOptions>(parse({"run", "-m", kModel, "-p", "–n"}).options).text.prompt, "–n");
  expect_refused(joined(text, {"– he said"}), "has no flag before it");
}

TEST(Flags, ComplaintsOfTheParser_areInTheWordsOfThisProgram) {
  const Arguments text{"run", "-m", kModel, "-p", "x"};
  expect_refused(joined(text, {"--temp"}), "--temp needs a value; 'yamata run --help' lists the flags");
  expect_refused(joined(text, {"-ngl"}), "-ngl needs a value");
  expect_refused(joined(text, {"-n"}), "-n needs a value");
  expect_refused(joined(text, {"-h=3"}), "'-h=3': -h takes no value");
  expect_refused(joined(text, {"-x=3"}), "'-x' is not a flag");
  expect_refused({"quantize", "a", "b", "Q4_0", "-3"}, "'-3' stands where a flag or a number from 0 on is expected");
  expect_refused(joined(text, {"-3"}), "'-3' stands where a flag is expected");
}

TEST(Flags, StrategyWithoutAGuessSource_isToldTheFlagThatWasGiven) {
  const Arguments text{"run", "-m", kModel, "-p", "x", "--strategy", "speculative"};
  expect_refused(joined(text, {"--no-lookup"}), "--strategy speculative with --no-lookup needs a draft model");
  expect_refused(joined(text, {"--policy", "chain"}), "--strategy speculative with --policy chain needs a draft model");
}

}  // namespace
}  // namespace yamata::test
