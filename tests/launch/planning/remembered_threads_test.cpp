// The number of threads that a run chooses: kept, shown, and measured anew where asked for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "node/topology.hpp"
#include "tests/launch/process.hpp"

namespace yamata::test {
namespace {

class RememberedThreads : public testing::Test {
 protected:
  /// Rank 0's entry in the result of a run with these flags; sets outcome_.
  nlohmann::json rank(const Arguments& more) {
    write_file(folder_ / "load", load_);
    Arguments command{"env", "XDG_CACHE_HOME=" + (folder_ / "cache"), "YAMATA_LOAD_FILE=" + (folder_ / "load")};
    for (const auto& word : yamata({"run", "-m", kModel, "-p", "A king", "-n", "2", "--json", folder_ / "r.json"})) command.push_back(word);
    command.insert(command.end(), more.begin(), more.end());
    outcome_ = run(command);
    EXPECT_EQ(outcome_.code, 0) << outcome_.err;
    return nlohmann::json::parse(read_file(folder_ / "r.json"))["per_rank"][0];
  }
  /// The line of the kept choice: its name, when it expires, and the text; empty if there is none.
  std::string line() const {
    std::istringstream lines(read_file(folder_ / "cache/yamata/measurements"));
    std::string line;
    while (std::getline(lines, line) && line.find(".threads ") == std::string::npos) continue;
    return lines ? line : "";
  }
  /// The kept number, and when it was measured.
  std::pair<int, std::time_t> kept() const {
    std::istringstream text(line());
    std::string name, until_s, word;
    std::pair<int, std::time_t> found;
    text >> name >> until_s >> word >> found.first >> found.second;
    EXPECT_EQ(word, "yamata-threads-1");
    return found;
  }
  /// Makes the kept number two hours older than `now`.
  void age(std::time_t now) const {
    std::istringstream text(line());
    std::string name, until_s;
    text >> name >> until_s;
    write_file(folder_ / "cache/yamata/measurements",
               fmt::format("yamata-measurements-1 {}\n{} {} yamata-threads-1 {} {}\n", now, name, until_s, kept().first, now - 7200));
  }
  /// Expects the rank's number of threads to be the kept one.
  void expect_kept(const nlohmann::json& rank) const {
    const auto [threads, measured_s] = kept();
    EXPECT_EQ(rank["threads"], threads);
    char utc[32] = "", local[32] = "";
    std::strftime(utc, sizeof(utc), "%FT%TZ", std::gmtime(&measured_s));
    std::strftime(local, sizeof(local), "%H:%M", std::localtime(&measured_s));
    EXPECT_EQ(rank["threads_measured"], utc);
    const std::string line = std::to_string(threads) + (threads == 1 ? " thread" : " threads") + ", measured " + local;
    EXPECT_NE(outcome_.err.find(line), std::string::npos) << line << " in " << outcome_.err;
  }

  const TemporaryFolder folder_;
  std::string load_ = "0.00 0.00 0.00 1/100 1000\n";
  Outcome outcome_{};
};

TEST_F(RememberedThreads, GivenNumber_isNeitherMeasuredNorKept) {
  const auto given = rank({"-t", "2"});
  EXPECT_EQ(given["threads"], 2);
  EXPECT_TRUE(given["threads_measured"].is_null());
  EXPECT_EQ(outcome_.err.find("measured"), std::string::npos) << outcome_.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache"));
}

TEST_F(RememberedThreads, FastestNumber_isKeptShownAndMeasuredAnewWhereAskedFor) {
  if (Topology::detect().core_cpus.size() < 2) GTEST_SKIP() << "one core leaves no choice";
  const std::time_t begin = std::time(nullptr);
  expect_kept(rank({}));
  EXPECT_GE(kept().second, begin);

  age(begin);
  expect_kept(rank({}));  // whether it is still the fastest depends on the machine
  age(begin);
  expect_kept(rank({"--threads", "measure"}));
  EXPECT_GE(kept().second, begin);
  age(begin);
  EXPECT_EQ(run({"env", "XDG_CACHE_HOME=" + (folder_ / "cache"), "YAMATA_LOAD_FILE=" + (folder_ / "load"), kProgram, "bench", "-m", kModel,
                 "-p", "0", "-n", "1", "-r", "1", "-t", "measure"})
                .code,
            0);
  EXPECT_GE(kept().second, begin);
}

TEST_F(RememberedThreads, NumberChosenOnABusyMachine_isUsedButNotKept) {
  if (Topology::detect().core_cpus.size() < 2) GTEST_SKIP() << "one core leaves no choice";
  load_ = "100000.00 0.00 0.00 1/100 1000\n";
  EXPECT_FALSE(rank({})["threads_measured"].is_null());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache"));
}

}  // namespace
}  // namespace yamata::test
