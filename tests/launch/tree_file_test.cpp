// --tree: valid and invalid trees of guesses.
#include "launch/program/options/tree_file.hpp"

#include <gtest/gtest.h>

#include "launch/program/output/output_file.hpp"
#include "launch/program/output/warnings.hpp"
#include "node/error.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::test {
namespace {

StaticTree read(const std::string& text, int guesses = 3) {
  const TemporaryFolder folder;
  write_file(folder / "tree.json", text);
  return read_tree(folder / "tree.json", guesses);
}

TEST(TreeFile, Paths_areNodesInAnyOrder) {
  const StaticTree tree = read(R"({"tree": [[0, 1], [0], [2]]})");
  ASSERT_EQ(tree.width(), 4);
  EXPECT_EQ(tree.nodes[1], (StaticTree::Node{0, 0, 0}));
  EXPECT_EQ(tree.nodes[2], (StaticTree::Node{0, 0, 2}));
  EXPECT_EQ(tree.nodes[3], (StaticTree::Node{1, 1, 1}));
}

TEST(TreeFile, Accuracies_growATreeOfAsManyGuessesAsAreWanted) {
  const std::string rates = R"({"sources": [{"name": "x", "accuracies": [[1]]}, {"name": "all", "accuracies": [[0.6, 0.3], [0.4, 0.1]]}]})";
  const StaticTree tree = read(rates);  // .6, .3, .24
  ASSERT_EQ(tree.width(), 4);
  EXPECT_GE(tree.child(0, 0), 0);
  EXPECT_GE(tree.child(0, 1), 0);
  EXPECT_GE(tree.child(tree.child(0, 0), 0), 0);
  EXPECT_EQ(read(rates, 1).width(), 2);
}

const std::string kChoices = R"({"tree": [[0]], "choices": [{"width": 1, "tree": []}, {"width": 2, "tree": [[1]]},
                               {"width": 4, "tree": [[0], [1], [1, 0]]}]})";

TEST(TreeFile, Choices_areTakenByTheirSizeIfItIsGiven) {
  const TemporaryFolder folder;
  const std::string file = folder / "tree.json";
  write_file(file, kChoices);
  EXPECT_EQ(read_tree(file, 3).nodes, (std::vector<StaticTree::Node>{{}, {0, 0, 0}})) << "the chosen one";
  EXPECT_EQ(read_tree(file, 1, true).nodes, (std::vector<StaticTree::Node>{{}, {0, 0, 1}}));
  EXPECT_EQ(read_tree(file, 3, true).width(), 4);
  EXPECT_EQ(read_run_trees(file, 3, true)[0].tree.width(), 4);
  try {
    read_tree(file, 2, true);
    FAIL();
  } catch (const ModelError& e) {
    EXPECT_EQ(e.what(), file + ": it has trees of 1, 3 guesses, but none of 2, as --draft says; check --tree");
  }
  write_file(file, R"({"tree": [[0], [1]]})");
  EXPECT_EQ(read_tree(file, 7, true).width(), 3) << "its only tree";
}

TEST(TreeFile, AllTrees_areThoseOfAFile) {
  const TemporaryFolder folder;
  const auto widths = [&](const std::string& text) {
    write_file(folder / "tree.json", text);
    std::vector<int> widths;
    for (const StaticTree& tree : read_all_trees(folder / "tree.json")) widths.push_back(tree.width());
    return widths;
  };
  EXPECT_EQ(widths(kChoices), (std::vector{2, 4})) << "a tree without guesses is none";
  EXPECT_EQ(widths(R"({"tree": [[0], [1]]})"), (std::vector{3}));
  EXPECT_EQ(widths(R"({"sources": [{"name": "all", "accuracies": [[0.6, 0.3], [0.4, 0.1]]}]})"), (std::vector{2, 4, 7})) << "of 7 places";
  EXPECT_THROW(widths(R"({"sources": [{"name": "all", "accuracies": [[0]]}]})"), ModelError);
  EXPECT_THROW(widths(R"({"choices": 1})"), ModelError);
  try {
    widths(R"({"choices": [{"width": 4}]})");
    FAIL();
  } catch (const ModelError& e) {
    EXPECT_EQ(e.what(), folder / "tree.json" + ": its \"choices\" are not those that yamata profile --tree-out writes; check --tree");
  }
  EXPECT_THROW(widths(R"({"choices": []})"), ModelError);
}

/// The warnings of reading this text as a tree.
std::string warnings_of(const std::string& text, int guesses) {
  show_warnings();
  testing::internal::CaptureStderr();
  read(text, guesses);
  return testing::internal::GetCapturedStderr();
}

TEST(TreeFile, RatesOfTooFewGuesses_areWarnedOf) {
  const std::string sources = R"("sources": [{"name": "all", "accuracies": [[0.6, 0.3], [0.4, 0.1]]}]})";
  EXPECT_NE(warnings_of(R"({"draft": 2, )" + sources, 3).find("of at most 2 guesses, 64 after one token, so this tree of 3 may"),
            std::string::npos);
  EXPECT_NE(warnings_of(R"({"children": 2, )" + sources, 3).find("--policy dynamic-tree --draft 3\n"), std::string::npos)
      << "the second choice is in the tree, and the third was never recorded";
  EXPECT_EQ(warnings_of(R"({"draft": 3, "children": 2, )" + sources, 1), "") << "the second choice is not needed";
  EXPECT_NE(warnings_of("{" + sources, 7).find("only 6 guesses were ever right, so the tree has no more, not 7"), std::string::npos);
  EXPECT_EQ(warnings_of(R"({"draft": 3, "children": 3, )" + sources, 3), "");
  EXPECT_EQ(warnings_of("{" + sources, 3), "") << "a file of an earlier version";
  EXPECT_EQ(warnings_of(R"({"tree": [[0]]})", 3), "") << "a shape, whose size is its own";
}

TreeRates rates(const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder / "rates.json", text);
  return read_rates(folder / "rates.json", "--tree-from");
}

TEST(TreeFile, Rates_areOfAllSourcesTogether) {
  const TreeRates read = rates(R"({"draft": 63, "sources": [{"name": "x"}, {"name": "all", "accuracies": [[1]], "ranks": [[[0], [9]]]}]})");
  EXPECT_EQ(read.texts, (std::vector<RankedText>{{{0}, {9}}}));
  ASSERT_EQ(read.accuracies.size(), 1u);
  EXPECT_EQ(read.accuracies[0].size(), 10u) << "from the ranks, of which the file's accuracies have only the first";
  EXPECT_EQ(read.accuracies[0][9], 0.5);
  EXPECT_EQ(read.limits.draft, 63);
  EXPECT_EQ(read.limits.children, 64);
}

TEST(TreeFile, RatesThatAreNone_areRefused) {
  for (const char* text :
       {"", "{}", R"({"tree": [[0]]})", R"({"sources": [{"name": "all"}]})", R"({"sources": [{"name": "all", "ranks": 1}]})",
        R"({"sources": [{"name": "all", "ranks": [[[-1], [-1]]]}]})", R"({"sources": []})"}) {
    try {
      rates(text);
      ADD_FAILURE() << text;
    } catch (const ModelError& e) {
      EXPECT_NE(std::string(e.what()).find("; check --tree-from"), std::string::npos) << e.what();
    }
  }
}

TEST(TreeFile, WhatIsNoTree_isRefused) {
  for (const char* text : {"", "{}", "[1]", R"({"tree": []})", R"({"tree": [[]]})", R"({"tree": [[0], [0]]})", R"({"tree": [[1, 0]]})",
                           R"({"tree": [[-1]]})", R"({"tree": [["a"]]})", R"({"tree": [[64]]})", R"({"tree": [[0], [1.9]]})",
                           R"({"tree": [[0], [true]]})", R"({"tree": [[4294967296]]})", R"({"tree": 1})",
                           R"({"sources": [{"name": "x", "accuracies": [[1]]}]})", R"({"sources": [{"name": "all"}]})"}) {
    EXPECT_THROW(read(text), ModelError) << text;
  }
  const TemporaryFolder folder;
  EXPECT_THROW(read_tree(folder / "absent.json", 3), ModelError) << "a file, as a model is: exit code 2";
}

TEST(TreeFile, TreesOfATrace_haveTheirRuns) {
  const TemporaryFolder folder;
  write_file(folder / "t.json", R"({"traceEvents": [], "trees": [{"run": 7, "tree": [[1], [1, 0]]}, {"run": 9, "tree": [[0]]}]})");
  const std::vector<RunTree> trees = read_run_trees(folder / "t.json", 3);
  ASSERT_EQ(trees.size(), 2u);
  EXPECT_EQ(trees[0].run, 7u);
  EXPECT_EQ(trees[0].tree.nodes, (std::vector<StaticTree::Node>{{}, {0, 0, 1}, {1, 1, 0}}));
  EXPECT_EQ(trees[1].run, 9u);
  write_file(folder / "tree.json", R"({"tree": [[0]]})");
  ASSERT_EQ(read_run_trees(folder / "tree.json", 3).size(), 1u);
  EXPECT_EQ(read_run_trees(folder / "tree.json", 3)[0].run, 0u);
  for (const char* text :
       {R"({"traceEvents": []})", R"({"traceEvents": [], "trees": [{"run": 1}]})", R"({"traceEvents": 1, "trees": 5})"}) {
    write_file(folder / "bad.json", text);
    EXPECT_THROW(read_run_trees(folder / "bad.json", 3), ModelError) << text;
  }
}

TEST(TreeFile, FileThatIsNotJson_isCalledSo) {
  const TemporaryFolder folder;
  write_file(folder / "tree.json", R"({"tree": [[0],)");
  try {
    read_tree(folder / "tree.json", 3);
    FAIL();
  } catch (const ModelError& e) {
    EXPECT_EQ(e.what(), folder / "tree.json" + " is not JSON; check --tree");
  }
}

}  // namespace
}  // namespace yamata::test
