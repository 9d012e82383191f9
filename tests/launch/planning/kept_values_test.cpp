// One file of measurements: small, shared by processes, and harmless whatever is in the folder.
#include "launch/program/planning/kept_values.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <vector>

#include "tests/launch/planning/times.hpp"
#include "tests/launch/process.hpp"

namespace yamata {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kPatient(10);

class KeptValuesTest : public testing::Test {
 protected:
  void keep(const std::string& name, const std::string& text, std::int64_t now_s = kNow) {
    keep_value(folder_, {name, text, now_s + kDay}, now_s);
  }
  std::string read(const std::string& name) const { return std::string(KeptValues(folder_).find(name)); }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename());
    return names;
  }
  /// Makes the folder with a file in it.
  void put(const std::string& name, const std::string& text) {
    fs::create_directories(folder_);
    test::write_file(folder_ + "/" + name, text);
  }

  const test::TemporaryFolder parent_;
  const std::string folder_ = parent_ / "a/b", file_ = folder_ + "/measurements";
};

TEST_F(KeptValuesTest, Value_isReplacedByTheNextOfItsName) {
  EXPECT_EQ(read("one"), "");
  keep("one", "1 2 3");
  keep("two", "x");
  keep("one", "4");
  EXPECT_EQ(read("one"), "4");
  EXPECT_EQ(read("two"), "x");
  EXPECT_EQ(read("tw"), "");
  EXPECT_EQ(read("wo"), "");
  EXPECT_EQ(read("yamata-measurements-1"), "");
  EXPECT_EQ(test::read_file(file_), fmt::format("yamata-measurements-1 {0}\ntwo {1} x\none {1} 4\n", kNow, kNow + kDay));
}

TEST_F(KeptValuesTest, ManySetups_haveOneFileOfBoundedSize) {
  const std::string text(1000, 'x');
  for (int setup = 0; setup < 400; ++setup) {
    keep(fmt::format("host-{:016x}-avx2-4t-0of1-auto.speed", setup), text);
    ASSERT_LE(fs::file_size(file_), kMaxKeptBytes);
  }
  EXPECT_EQ(files(), std::set<std::string>{"measurements"});
  EXPECT_GE(fs::file_size(file_), kMaxKeptBytes - 2000);
  EXPECT_EQ(read(fmt::format("host-{:016x}-avx2-4t-0of1-auto.speed", 399)), text);
  EXPECT_EQ(read(fmt::format("host-{:016x}-avx2-4t-0of1-auto.speed", 200)), text);
  EXPECT_EQ(read(fmt::format("host-{:016x}-avx2-4t-0of1-auto.speed", 0)), "") << "the oldest were removed";
}

TEST_F(KeptValuesTest, ValueThatIsTooLong_isNotKept) {
  keep("small", "1");
  keep("large", std::string(64 << 10, 'x'));
  EXPECT_EQ(read("large"), "");
  EXPECT_EQ(read("small"), "1");
}

TEST_F(KeptValuesTest, ExpiredValues_areRemovedWhenAnotherIsKept) {
  keep("first", "1", kNow);
  keep("second", "2", kNow + kHour);
  keep("third", "3", kNow + kDay - 1);
  EXPECT_EQ(read("first"), "1");
  keep("fourth", "4", kNow + kDay);
  EXPECT_EQ(read("first"), "");
  EXPECT_EQ(read("second"), "2");
  keep("fifth", "5", kNow - 2 * kDay);
  EXPECT_EQ(read("second"), "") << "from the future";
  EXPECT_EQ(read("fifth"), "5");
}

TEST_F(KeptValuesTest, EightProcessesAtOnce_loseNothing) {
  constexpr int kProcesses = 8, kEach = 50;
  const auto name = [](int process, int i) { return fmt::format("{}-{}", process, i); };
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    for (int i = 0; i < kEach; ++i) keep_value(folder_, {name(process, i), "x", kNow + kDay}, kNow, kPatient);
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const KeptValues kept(folder_);
  for (int process = 0; process < kProcesses; ++process) {
    for (int i = 0; i < kEach; ++i) EXPECT_EQ(kept.find(name(process, i)), "x") << name(process, i);
  }
  EXPECT_EQ(files(), std::set<std::string>{"measurements"});
}

TEST_F(KeptValuesTest, LockOfAStoppedProcess_isGivenUp_andNothingIsLost) {
  keep("one", "1");
  const int fd = ::open(file_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  keep_value(folder_, {"two", "2", kNow + kDay}, kNow, std::chrono::milliseconds(0));
  EXPECT_EQ(read("one"), "1") << "reading does not wait";
  EXPECT_EQ(read("two"), "");
  ::close(fd);
  keep("two", "2");
  EXPECT_EQ(read("one") + read("two"), "12");
}

TEST_F(KeptValuesTest, DamagedAndForeignFiles_holdNothing_andAreReplaced) {
  const std::string good = fmt::format("one {} 1\n", kNow + kDay);
  for (const std::string& text :
       {std::string(), std::string("yamata-measurements-1"), "yamata-measurements-2 1800000000\n" + good, "x\n" + good,
        "yamata-measurements-10 1800000000\n" + good, fmt::format("yamata-measurements-1 {}\n", kNow) + good + std::string(1 << 20, 'x')}) {
    put("measurements", text);
    EXPECT_EQ(read("one"), "") << text.substr(0, 100);
    keep("two", "2");
    EXPECT_EQ(read("one") + read("two"), "2") << text.substr(0, 100);
  }
}

TEST_F(KeptValuesTest, DamagedLines_areDropped) {
  put("measurements",
      fmt::format("yamata-measurements-1 {0}\n\n \none {1} 1\ntwo\nthree x 3\nfour {1}\nfive -1 5\nsix {1} 6 6\nseven {1} 7", kNow,
                  kNow + kDay));
  keep("new", "8");
  EXPECT_EQ(test::read_file(file_),
            fmt::format("yamata-measurements-1 {0}\none {1} 1\nsix {1} 6 6\nseven {1} 7\nnew {1} 8\n", kNow, kNow + kDay));
}

TEST_F(KeptValuesTest, PipeOrFolderInPlaceOfTheFile_isNotWaitedFor) {
  fs::create_directories(folder_);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  keep("one", "1");
  EXPECT_EQ(read("one"), "");
  EXPECT_TRUE(fs::is_fifo(file_));
  fs::remove(file_);
  fs::create_directory(file_);
  keep("one", "1");
  EXPECT_EQ(read("one"), "");
  EXPECT_EQ(files(), std::set<std::string>{"measurements"});
}

TEST_F(KeptValuesTest, FolderThatCannotBe_isNoFault) {
  test::write_file(parent_ / "file", "x");
  for (const std::string& folder : {parent_ / "file", std::string("/proc/none"), std::string()}) {
    EXPECT_NO_THROW(keep_value(folder, {"one", "1", kNow + kDay}, kNow));
    EXPECT_EQ(KeptValues(folder).find("one"), "");
  }
}

TEST_F(KeptValuesTest, FullDisk_leavesWhatWasKept) {
  keep("one", "1");
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{10, 10};
    ::setrlimit(RLIMIT_FSIZE, &none);
    keep("two", "2");
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read("one"), "1");
  EXPECT_EQ(read("two"), "");
  EXPECT_EQ(files(), std::set<std::string>{"measurements"});
}

TEST_F(KeptValuesTest, FilesOfOlderVersions_areRemoved_andNoOthers) {
  const std::set<std::string> ours{"host-1-0000000000abcdef-avx2-4t-0of2-auto.speed",
                                   "a.threads",
                                   "b.widths",
                                   "c.first-choices",
                                   "d.link",
                                   "e.group",
                                   "f.savings",
                                   "g.forecast",
                                   "h.units",
                                   "a.threads.123.tmp",
                                   "measurements.77.tmp"};
  for (const std::string& name : ours) {
    const std::string kind = fs::path(name.ends_with(".tmp") ? "a.threads" : name).extension().string().substr(1);
    put(name, "yamata-" + kind + "-2 0.5 1800000000\n");
  }
  const std::set<std::string> others{"model.gguf",      "b.speed", "c.speed", "d.speed", "speed",
                                     "a.threads.x.tmp", "e.speed", "link",    "f.units", "g.speed"};
  put("model.gguf", "yamata-speed-2 1 2\n");
  put("b.speed", "my own notes\n");
  put("c.speed", "yamata-threads-1 2 3\n");
  put("d.speed", "yamata-speed-2 1 2\n" + std::string(64 << 10, ' '));
  put("g.speed", "yamata-speed-notes\n");
  put("speed", "yamata-speed-2 1 2\n");
  put("a.threads.x.tmp", "yamata-threads-1 2 3\n");
  fs::create_directory(folder_ + "/e.speed");
  fs::create_symlink(folder_ + "/speed", folder_ + "/link");
  ASSERT_EQ(::mkfifo((folder_ + "/f.units").c_str(), 0600), 0);
  keep("one", "1");
  std::set<std::string> expected = others;
  expected.insert("measurements");
  EXPECT_EQ(files(), expected);

  put("a.threads", "yamata-threads-1 2 3\n");
  keep("two", "2", kNow + kDay - 1);
  EXPECT_TRUE(files().contains("a.threads")) << "the folder is searched once a day";
  keep("two", "2", kNow + kDay);
  EXPECT_EQ(files(), expected);
}

}  // namespace
}  // namespace yamata
