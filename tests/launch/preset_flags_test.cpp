// Flags of presets, and presets that do not fit other flags.
#include "launch/program/output/output_file.hpp"
#include "tests/launch/parsed_flags.hpp"

namespace yamata::test {
namespace {

TEST(Flags, UnitsOfAPreset_areThoseThatItMeans) {
  expect_refused({"run", "-m", kModel, "-p", "x", "--preset", "duodecoding", "-md", kDraft}, "as in --units cuda:0 --draft-units cpu");
  expect_refused({"run", "-m", kModel, "-p", "x", "--preset", "dovetail", "--heads", kDraftHeads},
                 "as in --units cpu --draft-units cuda:0");
}

TEST(Flags, PresetOfAMachineWithAGpu_saysIfThereIsNone) {
  const Arguments cores{"--preset", "dovetail", "--heads", kDraftHeads, "--units", "cpu:0", "--draft-units", "cpu:1"};
  expect_lines(
      idle_in_run(cores),
      {"--preset dovetail has no GPU among its units, unlike the paper's machine; name one, as in --units cpu --draft-units cuda:0"});
  expect_lines(idle_in_run({"--preset", "dovetail", "--heads", kDraftHeads, "--units", "cpu", "--draft-units", "cuda:0"}), {});
  expect_lines(idle_in_run({"--preset", "dovetail", "--heads", kDraftHeads, "-ngl", "3", "--draft-units", "cpu"}), {});
}

TEST(Flags, Offload_saysHowManyLayersStay) {
  const Arguments run{"run", "-m", kModel, "-p", "x"};
  expect_refused(joined(run, {"--offload"}), "--offload copies layers to a GPU for every run; say with -ngl how many stay");
  expect_refused(joined(run, {"--offload", "-ngl", "0"}), "--offload copies layers");
  expect_refused(joined(run, {"--offload", "-ngl", "auto", "--no-repack"}), "--offload copies packed weights; leave out --no-repack");
  expect_refused(joined(run, {"--preset", "offload"}), "--preset offload copies layers");
  expect_refused(joined(run, {"--preset", "offload", "-ngl", "2", "-md", kDraft}), "--preset offload guesses nothing");
  const auto copies = [&](const Arguments& more) { return std::get<RunOptions>(parse(joined(run, more)).options).job.compute.offload; };
  EXPECT_TRUE(copies({"--offload", "-ngl", "3"}));
  EXPECT_FALSE(copies({"-ngl", "3"}));
  EXPECT_TRUE(copies({"--preset", "offload", "-ngl", "auto"}));
  EXPECT_TRUE(copies({"--preset", "specexec", "-ngl", "3", "-md", kDraft}));
  EXPECT_FALSE(copies({"--preset", "specexec", "-ngl", "0", "-md", kDraft}));
  EXPECT_FALSE(copies({"--preset", "specexec", "--units", "cuda:0", "-md", kDraft})) << "the target fits there";
}

/// `run` with this preset and flags.
SpeculationOptions with_preset(const std::string& preset, const Arguments& more) {
  return std::get<RunOptions>(parse(joined({"run", "-m", kModel, "-p", "x", "--preset", preset}, more)).options).speculation;
}

TEST(Flags, Preset_setsItsPapersNumbers_unlessTheyAreGiven) {
  const auto chain = with_preset("pipeinfer", {"-md", kDraft});
  EXPECT_EQ(chain.policy.name, "chain");
  EXPECT_EQ(chain.policy.draft, 4);
  EXPECT_EQ(chain.policy.accept, 0.001f);
  EXPECT_EQ(chain.policy.split, 0.8f);
  EXPECT_EQ(chain.policy.recovery, 0.4f);
  EXPECT_EQ(chain.policy.decay, 0.01f);
  EXPECT_EQ(chain.policy.branches, 3);
  EXPECT_TRUE(chain.reuse_tree) << "runs in flight stay valid";
  const auto other = with_preset("pipeinfer", {"-md", kDraft, "--draft", "7", "-pa", "0.2", "-np", "1", "--no-tree-reuse"});
  EXPECT_EQ(other.policy.draft, 7);
  EXPECT_EQ(other.policy.accept, 0.2f);
  EXPECT_EQ(other.policy.branches, 1);
  EXPECT_EQ(other.policy.recovery, 0.4f);
  EXPECT_FALSE(other.reuse_tree);
  EXPECT_FALSE(with_preset("medusa", {"--heads", kDraftHeads}).reuse_tree);
  const auto synchronous = with_preset("speculative", {"-md", kDraft, "--draft", "6"});
  EXPECT_EQ(synchronous.policy.name, "dynamic-tree");
  EXPECT_EQ(synchronous.policy.draft, 6);
  EXPECT_EQ(synchronous.policy.children, 1);
  EXPECT_FALSE(synchronous.looks_up());
}

TEST(Flags, StaticTreeOfAPreset_isThatOfItsFile) {
  const TemporaryFolder folder;
  write_file(folder / "tree.json", R"({"tree": [[0], [1], [0, 0]]})");
  write_file(folder / "rates.json", R"({"sources": [{"name": "all", "accuracies": [[0.6, 0.2, 0.1], [0.4, 0.3, 0.1], [0.3, 0.2]]}]})");
  const Arguments units{"--units", "cpu:0+cpu:1"}, heads{"--heads", kDraftHeads}, tree{"--tree", folder / "tree.json"},
      rates{"--tree", folder / "rates.json"};
  for (const char* preset : {"ghidorah", "medusa-em"}) {
    const auto own = with_preset(preset, joined(joined(heads, units), tree));
    EXPECT_EQ(own.policy.name, "static-tree");
    EXPECT_EQ(own.policy.draft, 3);
    EXPECT_EQ(own.policy.tree->width(), 4);
    EXPECT_FALSE(own.looks_up());
    EXPECT_EQ(with_preset(preset, joined(joined(heads, units), rates)).policy.tree->width(), 16) << "W = 16";
    EXPECT_EQ(with_preset(preset, joined(joined(joined(heads, units), rates), {"--draft", "7"})).policy.draft, 7);
    const auto built_in = with_preset(preset, joined(joined(heads, units), {"--policy", "static-tree"})).policy;
    EXPECT_FALSE(built_in.tree);
    EXPECT_EQ(built_in.draft, 15);
    const Arguments job = joined({"run", "-m", kModel, "-p", "x", "--preset", preset}, units);
    EXPECT_EQ(std::get<RunOptions>(parse(joined(joined(job, heads), tree)).options).job.layout.strategy, Strategy::kSpeculative);
    expect_refused(joined(job, tree), "guesses with heads alone; name them with --heads FILE");
    if (std::string(preset) == "medusa-em")
      expect_refused(joined(joined(joined(job, heads), tree), {"--attention-cut", "dynamic"}), "has no moving boundary");
    expect_refused(joined(joined(job, tree), {"-md", kDraft}), "or share layers by --units alone, without a preset");
    expect_refused(joined(job, heads), "find it with 'yamata acceptance -m " + kModel + " --heads " + kDraftHeads + " --no-lookup");
    expect_refused(joined(job, heads), "then 'yamata profile -m " + kModel + " --heads " + kDraftHeads + " --units cpu:0+cpu:1" +
                                           (std::string(preset) == "ghidorah" ? " --attention-cut dynamic" : "") +
                                           " --tree-from rates.json --tree-out tree.json'");
    expect_refused(joined(joined(joined(job, heads), tree), {"--strategy", "iterative"}), "is --strategy speculative");
    expect_refused(joined(joined(joined(job, heads), tree), {"--policy", "best-first"}), "--policy must be static-tree where --tree");
  }
}

TEST(Flags, TreeFile_isOfAStaticTree) {
  const TemporaryFolder folder;
  write_file(folder / "tree.json", R"({"tree": [[0], [1], [0, 0]]})");
  write_file(folder / "rates.json", R"({"sources": [{"name": "all", "accuracies": [[0.6, 0.2, 0.1], [0.4, 0.3, 0.1], [0.3, 0.2]]}]})");
  const Arguments tree{"--tree", folder / "tree.json"}, rates{"--tree", folder / "rates.json"};
  const auto medusa = with_preset("medusa", joined({"--heads", kDraftHeads}, tree));
  EXPECT_EQ(medusa.policy.name, "static-tree") << "Ghidorah's baseline: the same trees on one unit";
  EXPECT_EQ(medusa.policy.draft, 3);
  EXPECT_EQ(with_preset("medusa", joined({"--heads", kDraftHeads}, rates)).policy.tree->width(), 31) << "as many of 63 as were ever right";
  EXPECT_EQ(with_preset("medusa", {"--heads", kDraftHeads}).policy.name, "dynamic-tree");
  EXPECT_EQ(with_preset("medusa", {"--heads", kDraftHeads, "-pa", "0.1"}).policy.name, "dynamic-tree") << "-pa is idle";
  const auto alone = std::get<RunOptions>(parse(joined({"run", "-m", kModel, "-p", "x", "-md", kDraft}, tree)).options).speculation.policy;
  EXPECT_EQ(alone.name, "static-tree");
  expect_refused(joined({"run", "-m", kModel, "-p", "x", "-pa", "0.1"}, tree), "--policy must be static-tree where --tree is given");
  expect_refused(joined({"run", "-m", kModel, "-p", "x", "--preset", "speculative", "-md", kDraft}, tree), "--policy must be static-tree");
}

TEST(Flags, PromptLookup_isTheOnlySourceOfItsPreset) {
  const auto lookup = with_preset("prompt-lookup", {});
  EXPECT_TRUE(lookup.looks_up());
  EXPECT_EQ(lookup.prompt_lookup, 3);
  EXPECT_EQ(lookup.policy.draft, 10);
  EXPECT_EQ(with_preset("prompt-lookup", {"--prompt-lookup", "5"}).prompt_lookup, 5);
  for (const Arguments& more : {Arguments{"--no-lookup"}, {"--prompt-lookup", "0"}, {"--policy", "chain"}, {"-md", kDraft}})
    expect_refused(joined({"run", "-m", kModel, "-p", "x", "--preset", "prompt-lookup"}, more), "guesses from the text");
  expect_refused({"run", "-m", kModel, "-p", "x", "--no-lookup", "--prompt-lookup", "3"}, "--prompt-lookup");
  expect_lines(idle_in_run({"--preset", "medusa", "--heads", kDraftHeads, "--prompt-lookup", "3"}),
               {"--prompt-lookup does nothing with this"});
  expect_lines(idle_in_run({"--prompt-lookup", "3", "--suffix-store", "s"}), {"--suffix-store does nothing with"});
}

TEST(Flags, Datastore_isTheOnlySourceOfItsPreset) {
  const auto rest = with_preset("rest", {"--datastore", "corpus"});
  EXPECT_TRUE(rest.looks_up());
  EXPECT_EQ(rest.datastore, "corpus");
  EXPECT_EQ(rest.policy.name, "dynamic-tree");
  EXPECT_EQ(rest.policy.draft, 63);
  for (const Arguments& more : {Arguments{}, {"-md", kDraft, "--datastore", "corpus"}})
    expect_refused(joined({"run", "-m", kModel, "-p", "x", "--preset", "rest"}, more), "guesses from");
  for (const Arguments& more : {Arguments{"--no-lookup"}, {"--policy", "chain"}, {"--prompt-lookup", "3"}})
    expect_refused(joined({"run", "-m", kModel, "-p", "x", "--datastore", "corpus"}, more), "--datastore must be left out");
  expect_refused({"run", "-m", kModel, "-p", "x", "--preset", "prompt-lookup", "--datastore", "c"}, "--datastore");
  expect_refused({"simulate", "--datastore", "c"}, "--datastore");
  expect_refused({"acceptance", "-m", kModel, "-f", "p.jsonl", "--datastore", "c"}, "--datastore");
  expect_refused({"tokenize", "-m", kModel, "-p", "x", "--ids", "--datastore", "c"}, "one of the two");
  expect_lines(idle_in_run({"--datastore", "c", "--suffix-store", "s"}), {"--suffix-store does nothing with"});
}

TEST(Flags, Lookahead_isTheOnlySourceOfItsPreset) {
  const auto preset = with_preset("lookahead", {});
  EXPECT_TRUE(preset.looks_up());
  EXPECT_FALSE(preset.uses_suffixes());
  EXPECT_EQ(preset.lookahead.window, 7);
  EXPECT_EQ(preset.policy.draft, 14 * 4 - 1) << "the last token and all others";
  const auto other = with_preset("lookahead", {"--lookahead", "3,4,2"});
  EXPECT_EQ(other.lookahead.ngram, 4);
  EXPECT_EQ(other.policy.draft, 5 * 3 - 1);
  for (const Arguments& more :
       {Arguments{"--no-lookup"}, {"--prompt-lookup", "3"}, {"--datastore", "c"}, {"--policy", "chain"}, {"-md", kDraft}})
    expect_refused(joined({"run", "-m", kModel, "-p", "x", "--preset", "lookahead"}, more), "guesses from");
  for (const char* shape : {"7,5", "7,1,7", "0,5,7", "7,5,x", "20,5,7"})
    expect_refused({"run", "-m", kModel, "-p", "x", "--preset", "lookahead", "--lookahead", shape}, "--lookahead must be three numbers");
  expect_refused({"run", "-m", kModel, "-p", "x", "--lookahead", "7,5,7"}, "--lookahead must be used with --policy dynamic-tree");
  expect_refused({"simulate", "--lookahead", "7,5,7"}, "--lookahead");
  expect_lines(idle_in_run({"--policy", "dynamic-tree", "--draft", "55", "--lookahead", "7,5,7", "--suffix-store", "s"}),
               {"--suffix-store does nothing with"});
}

TEST(Flags, WindowOfLookaheadDecoding_isWhole) {
  const Arguments job{"run", "-m", kModel, "-p", "x", "--policy", "dynamic-tree", "--lookahead", "4,3,6"};
  const auto policy = std::get<RunOptions>(parse(job).options).speculation.policy;
  EXPECT_EQ(policy.draft, 10 * 2 - 1);
  EXPECT_EQ(policy.depth, 64);
  EXPECT_EQ(policy.children, 64);
  const Arguments preset{"run", "-m", kModel, "-p", "x", "--preset", "lookahead", "--lookahead", "4,3,6"};
  for (const Arguments& one : {job, preset}) {
    EXPECT_NO_THROW(parse(joined(one, {"--draft", "19", "--tree-depth", "4", "--tree-children", "8"})));
    expect_refused(joined(one, {"--draft", "18"}), "--draft must be at least 19 with this --lookahead");
    expect_refused(joined(one, {"--tree-depth", "3"}), "--tree-depth must be at least 4");
    expect_refused(joined(one, {"--tree-children", "7"}), "--tree-children must be at least 8");
  }
  for (const Arguments& more : {Arguments{"-md", kDraft}, {"--heads", kDraftHeads}, {"--mtp"}})
    expect_refused(joined(job, more), "--lookahead must be used without -md, --heads and --mtp");
}

TEST(Flags, Sequences_areThoseOfOnePolicy) {
  const Arguments numbers{"--sequences", "2", "--budget", "24"};
  const auto policy = with_preset("duodecoding", joined({"-md", kDraft, "--units", "cpu:0", "--draft-units", "cpu:1"}, numbers)).policy;
  EXPECT_EQ(policy.sequences, 2);
  EXPECT_EQ(policy.budget, 24);
  EXPECT_EQ(policy.draft, 32) << "the preset's";
  expect_lines(idle_in_run(numbers), {"--sequences, --budget do nothing with this policy"});
  expect_refused({"run", "-m", kModel, "-p", "x", "--sequences", "17"}, "--sequences must be");
}

TEST(Flags, CancelRoute_isDirect_exceptWithPipeInfersPreset) {
  const auto route = [](const Arguments& more) {
    return std::get<RunOptions>(parse(joined({"run", "-m", kModel, "-p", "x", "-md", kDraft}, more)).options).speculation.cancel_route;
  };
  EXPECT_EQ(route({}), CancelRoute::kDirect);
  EXPECT_EQ(route({"--cancel-route", "backward"}), CancelRoute::kBackward);
  EXPECT_EQ(route({"--preset", "pipeinfer"}), CancelRoute::kBackward);
  EXPECT_EQ(route({"--preset", "pipeinfer", "--cancel-route", "direct"}), CancelRoute::kDirect);
  EXPECT_EQ(route({"--preset", "speculative"}), CancelRoute::kDirect);
  expect_refused({"run", "-m", kModel, "-p", "x", "--cancel-route", "back"}, "--cancel-route");
  expect_lines(idle_in_run({"--cancel-route", "backward", "--no-cancel"}), {"--cancel-route does nothing with --no-cancel"});
  expect_lines(idle_in_run({"--cancel-route", "backward", "--strategy", "iterative"}), {"--cancel-route does nothing with --strategy"});
}

}  // namespace
}  // namespace yamata::test
