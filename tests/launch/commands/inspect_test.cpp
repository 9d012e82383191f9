// yamata inspect: what a model is, what it takes, and how its layers are split.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "tests/launch/expect_fault.hpp"
#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

namespace yamata::test {
namespace {

TEST(Inspect, Split_isShown) {
  const Outcome outcome = run(yamata({"inspect", "-m", kModel, "--layer-split", "0.5,0.5"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("rank 1"), std::string::npos);
  EXPECT_NE(outcome.out.find("general.architecture"), std::string::npos);
}

TEST(Inspect, BadSplit_isRefusedBeforeTheModelIsShown) {
  expect_fault({"inspect", "-m", kModel, "--layer-split", "0.5,x"}, 1, {"--layer-split", "'x'"});
  expect_fault({"inspect", "-m", kModel, "--layer-split", "0.5,0.5/1"}, 1, {"after the slash"});
  expect_fault({"inspect", "-m", kModel, "--layer-split", "1,1,1,1,1,1,1,1,1"}, 1, {"9 ranks", "8 layers"});
}

TEST(Inspect, TreeOfAFile_isShownWithItsMask) {
  const TemporaryFolder folder;
  write_file(folder / "tree.json", R"({"tree": [[0], [1], [0, 2]]})");
  const Outcome outcome = run(yamata({"inspect", "--tree", folder / "tree.json", "--json", folder / "mask.json"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "guesses: 3; by depth 2, 1\n\n"
            "row  path             mask\n"
            "  0  text             #\n"
            "  1  0                ##\n"
            "  2  1                #.#\n"
            "  3  0 2              ##.#\n"
            "\n8 of 16 cells of the mask are visible (50.0 %)\n");
  EXPECT_EQ(read_file(folder / "mask.json"), "{\"rows\":4,\"tree\":[[0],[1],[0,2]],\"mask\":[[1,0,0,0],[1,1,0,0],[1,0,1,0],[1,1,0,1]]}\n");
  const std::string tree = folder / "tree.json";
  expect_fault({"inspect", "--tree", tree, "-m", kModel}, 1, {"--model has no effect with --tree"});
  expect_fault({"inspect", "-m", kModel, "--draft", "3"}, 1, {"--draft has no effect without --tree"});
  expect_fault({"inspect", "--tree", tree, "--run", "3"}, 1, {"has no run 3 with guesses"});
  expect_fault({"inspect", "--tree", tree, "--json", tree}, 1, {"would be overwritten"});
}

TEST(Inspect, TreesOfRuns_areInATrace) {
  const TemporaryFolder folder;
  const std::string trace = folder / "trace.json";
  const Outcome traced = run(yamata({"run", "-m", kModel, "-p", "Once upon a time", "-n", "12", "-t", "1", "--preset", "medusa", "--heads",
                                     source_path("/models/tales-medusa.safetensors"), "--draft", "15", "--trace", trace}));
  ASSERT_EQ(traced.code, 0) << traced.err;
  const Outcome shown = run(yamata({"inspect", "--tree", trace, "--json", folder / "mask.json"}));
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find(" runs with guesses, "), std::string::npos) << shown.out;
  const auto json = nlohmann::json::parse(read_file(folder / "mask.json"));
  EXPECT_EQ(json["rows"], 16);
  for (std::size_t row = 1; row < 16; ++row) {
    EXPECT_EQ(json["mask"][row][0], 1) << "every row sees the text's last token";
    const auto seen = json["mask"][row].get<std::vector<std::size_t>>();
    EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), std::size_t{0}), json["tree"][row - 1].size() + 1) << row;
  }
  const Outcome fixed = run(yamata({"run", "-m", kModel, "-p", "Once upon a time", "-n", "40", "-t", "1", "--preset", "medusa", "--heads",
                                    source_path("/models/tales-medusa.safetensors"), "--draft", "15", "--policy", "static-tree", "--trace",
                                    folder / "fixed.json"}));
  ASSERT_EQ(fixed.code, 0) << fixed.err;
  EXPECT_NE(run(yamata({"inspect", "--tree", folder / "fixed.json"})).out.find("paths in all of them: 15, in half of them: 15, in any: 15"),
            std::string::npos);
  const std::uint64_t first = nlohmann::json::parse(read_file(trace))["trees"][0]["run"];
  const Outcome one = run(yamata({"inspect", "--tree", trace, "--run", std::to_string(first)}));
  EXPECT_NE(one.out.find("\nrun " + std::to_string(first) + ": guesses: "), std::string::npos) << one.out;
}

TEST(Inspect, LayersOfAGpu_areShown) {
  const auto split = [](const std::string& layers) {
    const std::string out = run(yamata({"inspect", "-m", kModel, "-ngl", layers, "-c", "100"})).out;
    return out.substr(out.find("split over"));
  };
  for (const char* part : {"  GPU    layers   0-2   weights       2.4 MiB", "  cores  layers   3-7   weights       6.1 MiB"})
    EXPECT_NE(split("3").find(part), std::string::npos) << part << " is not in\n" << split("3");
  EXPECT_NE(split("99").find("  GPU    layers   0-7   "), std::string::npos) << split("99");
  EXPECT_NE(split("99").find("  cores  layers    -    weights       1.1 MiB"), std::string::npos) << "the embedding\n" << split("99");
}

TEST(Inspect, Model_isDescribedWithWhatItTakesHere) {
  const Outcome outcome = run(yamata({"inspect", "-m", kModel, "-c", "100"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part :
       {"family llama", "end-of-text tokens: </s> (2)", "with a context of 100", "MiB of memory, of ", " tokens/s at most"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " is not in\n" << outcome.out;
}

}  // namespace
}  // namespace yamata::test
