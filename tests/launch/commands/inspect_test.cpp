// yamata inspect: what a model is, what it takes, and how its layers are split.
#include <gtest/gtest.h>

#include <string>

#include "tests/launch/expect_fault.hpp"
#include "tests/launch/process.hpp"

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
